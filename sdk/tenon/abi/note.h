/* Tenon ABI: what the library of a plugin says of itself as static data. `tenon-manifest` reads it
 * from the file, so that a plugin that was built for another machine gets its manifest without
 * being run. Hosts do not read it: a manifest and the plugin's record are what they go by.
 *
 * A note has one form in all kinds of files: that of a note of ELF. It is in the section
 * .note.tenon (ELF), __TEXT,__tenon (Mach-O) or .tenon (PE). In C++, TENON_PLUGIN makes it.
 */
#ifndef TENON_ABI_NOTE_H_
#define TENON_ABI_NOTE_H_

#include "tenon/abi/base.h"

#define TENON_NOTE_TYPE 1u
#define TENON_NOTE_NAME "Tenon" /* with its terminator, in a field of 8 bytes */

/* A value: the head of the note. Other facts are other lines of the text after it. */
typedef struct tenon_note_t {
  uint32_t name_bytes;  /* 8 */
  uint32_t facts_bytes; /* of abi and the text */
  uint32_t type;        /* TENON_NOTE_TYPE */
  char name[8];         /* TENON_NOTE_NAME */
  uint32_t abi;         /* tenon_plugin_t::abi */
} tenon_note_t;
/* The text: UTF-8 lines "name N", "version V", "build_id B", "interface ID MINOR", each ended by a
 * line feed; readers skip lines of other words. Zeros fill it up to a multiple of 4 bytes. */

#if defined(__APPLE__)
#define TENON_NOTE_PLACE __attribute__((section("__TEXT,__tenon"), used, aligned(4)))
#elif defined(_WIN32)
#define TENON_NOTE_PLACE __attribute__((section(".tenon"), used, aligned(4)))
#else
#define TENON_NOTE_PLACE __attribute__((section(".note.tenon"), used, aligned(4)))
#endif

/* One offered interface: an id (TENON_DEVICE_ID) and its minor, as a number. */
#define TENON_NOTE_OFFERS(id, minor) "interface " id " " #minor "\n"

/* Defines the note of a plugin in C, once, at file scope. All three are literals:
 *   TENON_PLUGIN_NOTE("acme", "0.1.0", TENON_NOTE_OFFERS(TENON_DEVICE_ID, 0)) */
#define TENON_PLUGIN_NOTE(plugin_name, plugin_version, interfaces) \
  TENON_PLUGIN_NOTE_TEXT_("name " plugin_name "\nversion " plugin_version "\n" interfaces)
#define TENON_PLUGIN_NOTE_TEXT_(lines)                                                     \
  TENON_NOTE_PLACE static const struct {                                                   \
    tenon_note_t head;                                                                     \
    char text[(sizeof(lines "build_id " __VERSION__ "\n") + 3) / 4 * 4];                   \
  } tenon_plugin_note = {{8, 4 + (sizeof(lines "build_id " __VERSION__ "\n") + 3) / 4 * 4, \
                          TENON_NOTE_TYPE, TENON_NOTE_NAME, TENON_TARGET_ABI},             \
                         lines "build_id " __VERSION__ "\n"};

#endif

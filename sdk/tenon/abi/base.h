/* Tenon ABI: the types that all other headers use: codes, strings, interned names, element types,
 * dims, tensor types, attributes, blobs.
 *
 * Rules of the whole ABI (docs/adr/0001-c-abi.md):
 *  - C11 and C++20; fixed-width integers, explicit-length strings, opaque handles; no bool, no enum
 *    in a struct, no exception and no allocator across the boundary.
 *  - Every table, and every record that may grow, begins with `uint32_t size_bytes`, which the side
 *    that fills it sets to sizeof. The host copies the known prefix of a table into a zeroed one of
 *    full size, so neither side compares sizes.
 *  - For a record to be filled, the caller sets size_bytes. The callee writes min(size_bytes, its
 *    own size) bytes, leaves the rest, and sets size_bytes to the number written (record.h); 0 is
 *    INVALID_ARGUMENT. Records have grown, so either side's may be the shorter one.
 *  - Arrays of records are walked with the size that one record has on the side that made the array
 *    (record.h: tenon_record_at), never with sizeof: of records that begin with size_bytes the
 *    first one's, of others a field NAME_bytes next to the count. Where the count is 0, neither is
 *    read.
 *  - A sink is a record with functions, and begins with size_bytes.
 *  - Values never grow: tenon_str_t, tenon_sink_t, tenon_key_value_t, tenon_attr_t (a new kind
 *    brings its data by a pointer), tenon_type_t (its `layout`), and the pairs and triples of
 *    handles and numbers that say so. They are in arrays and in other records as they are.
 *  - Fields named reserved are 0.
 *  - Each interface's header says whether it is stable. A stable interface only grows at its end,
 *    and what it has keeps its meaning, within a major version. A minor version may change an
 *    unstable one; CHANGELOG.md says how.
 *  - Every function returns tenon_code_t unless it cannot fail. Details go to tenon_host_t::fail.
 *  - Outputs come last, are named out_*, and are untouched on failure. A returned handle is not
 *    null; where null is allowed, it means none.
 *  - Borrowed means valid until the call returns, unless the comment names a longer time.
 *  - `safe` means any thread at any time; `one at a time` means that the caller serialises calls
 *    per object.
 */
#ifndef TENON_ABI_BASE_H_
#define TENON_ABI_BASE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_ABI_MAJOR 0u
#define TENON_ABI_MINOR 2u
/* Packed version. Major 0 until the first outside vendor; CHANGELOG.md has one line per change. */
#define TENON_ABI_VERSION ((TENON_ABI_MAJOR << 16) | TENON_ABI_MINOR)
/* The oldest version whose rules and records these headers keep. Hosts take plugins from it on. */
#define TENON_ABI_OLDEST ((0u << 16) | 2u)
/* What a plugin says that it needs (tenon_plugin_t::abi). Define it before including any header to
 * need more than the oldest; what single interfaces need is said next to each of them
 * (tenon_interface_t::minor). So a plugin that was built with newer headers loads in an older host,
 * as long as it uses nothing newer. */
#ifndef TENON_TARGET_ABI
#define TENON_TARGET_ABI TENON_ABI_OLDEST
#endif
#if TENON_TARGET_ABI < TENON_ABI_OLDEST || TENON_TARGET_ABI > TENON_ABI_VERSION
#error "TENON_TARGET_ABI is not a version that these headers have"
#endif

/* ---- Codes ---- */

typedef uint32_t tenon_code_t;
#define TENON_OK 0u
#define TENON_CANCELLED 1u        /* the caller asked to stop */
#define TENON_UNKNOWN 2u          /* an error from elsewhere that fits none of the codes below */
#define TENON_INVALID_ARGUMENT 3u /* wrong whatever the state: a bad dim, a malformed file */
#define TENON_DEADLINE_EXCEEDED 4u
#define TENON_NOT_FOUND 5u /* a file, a name, an interface that is not there */
#define TENON_ALREADY_EXISTS 6u
#define TENON_PERMISSION_DENIED 7u
#define TENON_RESOURCE_EXHAUSTED 8u /* memory, disk, or a documented limit */
#define TENON_FAILED_PRECONDITION \
  9u /* right elsewhere, wrong in this state: frozen graph, closed device */
#define TENON_ABORTED 10u
#define TENON_OUT_OF_RANGE 11u
#define TENON_UNIMPLEMENTED 12u /* not supported by this implementation; always with a reason */
#define TENON_INTERNAL 13u      /* a bug of the side that returns it */
#define TENON_UNAVAILABLE 14u   /* a device or library that is absent now */
#define TENON_DATA_LOSS 15u     /* a digest that does not match */
#define TENON_DEVICE_LOST 16u   /* sticky: the device returns no more results */

/* ---- Strings and names ---- */

/* UTF-8, not terminated, may contain any byte. data may be null when size is 0. */
typedef struct tenon_str_t {
  const char* data;
  uint64_t size;
} tenon_str_t;

/* An interned name. Process-wide, compared as an integer, never freed. 0 is the empty name. */
typedef uint32_t tenon_sym_t;

/* A value: evidence attached to a failure or a report, or a setting. Borrowed. */
typedef struct tenon_key_value_t {
  tenon_str_t key, value;
} tenon_key_value_t;

/* A value. Receives bytes in order, in any number of calls. Returning a code other than OK stops
 * the producer. */
typedef struct tenon_sink_t {
  void* self;
  tenon_code_t (*write)(void* self, const void* data, uint64_t size_bytes);
} tenon_sink_t;

/* ---- Element types ---- */

/* The values are part of every serialised form and never change. There will be more of them, so a
 * plugin refuses the ones that it does not know, and there is no public count. */
typedef uint16_t tenon_dtype_t;
#define TENON_DTYPE_NONE 0u
#define TENON_PRED 1u /* one byte, 0 or 1 */
#define TENON_I4 2u   /* storage only, two to a byte, low nibble first */
#define TENON_U4 3u
#define TENON_I8 4u
#define TENON_I16 5u
#define TENON_I32 6u
#define TENON_I64 7u
#define TENON_U8 8u
#define TENON_U16 9u
#define TENON_U32 10u
#define TENON_U64 11u
#define TENON_F8E4M3FN 12u /* storage and dot inputs */
#define TENON_F8E5M2 13u
#define TENON_F16 14u
#define TENON_BF16 15u
#define TENON_F32 16u
#define TENON_F64 17u
#define TENON_C64 18u
#define TENON_C128 19u
/* Reserved for types that no op takes yet, so that numbers need not be agreed on later: 20
 * f8e4m3fnuz, 21 f8e5m2fnuz, 22 f8e3m4, 23 f8e8m0, 24 f6e2m3, 25 f6e3m2, 26 f4e2m1, 27 i1, 28 u1,
 * 29 i2, 30 u2. The core refuses them as any number that is not a type. */

/* A set of element types: TENON_DTYPE_BIT(dtype) for each. ANY has those of later hosts, too. */
typedef uint64_t tenon_dtypes_t;
#define TENON_DTYPE_BIT(dtype) ((tenon_dtypes_t)1 << (dtype))
#define TENON_DTYPES_ANY (~(tenon_dtypes_t)0)

/* ---- Dims and types ---- */

/* A dim of one graph. >= 0: that constant. < 0: ~index into the graph's table of dim expressions.
 * These are hash-consed, so equal numbers are provably equal dims; unequal numbers may be equal too
 * (dim_compare). */
typedef int64_t tenon_dim_t;

#define TENON_RANK_MAX 32u /* a model of higher rank is refused; the message names this limit */

#define TENON_KIND_TENSOR 0u
#define TENON_KIND_TOKEN 1u  /* orders effects; no data */
#define TENON_KIND_OBJECT 2u /* opaque host value, named by `object` */

/* Strides, order of dims, kind of memory and encoding of a tensor. None is defined yet: the record,
 * which will begin with size_bytes, is where they go. */
typedef struct tenon_layout_t tenon_layout_t;

/* A value. Borrowed views of types live as long as their graph. */
typedef struct tenon_type_t {
  tenon_dtype_t dtype;
  uint16_t kind;
  uint32_t rank;
  const tenon_dim_t* dims;
  tenon_sym_t object; /* kind OBJECT only */
  uint32_t reserved;
  /* Null: dense, row-major, in its device's own memory. Anything else is refused with T0670. */
  const tenon_layout_t* layout;
} tenon_type_t;

/* ---- Arrays ---- */

/* A dense or strided array in host memory. Strides are in bytes and may be 0 or negative. Borrowed.
 */
typedef struct tenon_array_t {
  uint32_t size_bytes;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t rank;
  uint32_t reserved2;
  void* data;
  const int64_t* dims;
  const int64_t* strides_bytes;
} tenon_array_t;

/* ---- Blobs ---- */

/* Bytes of a constant: inline, splat, or a range of a mapped file that is read on first use.
 * Created, retained, released and read through tenon.host.graph/1. Reference counted; immutable;
 * safe. */
typedef struct tenon_blob_t tenon_blob_t;

/* ---- Attributes ---- */

#define TENON_ATTR_I64 1u
#define TENON_ATTR_F64 2u
#define TENON_ATTR_STRING 3u
#define TENON_ATTR_I64S 4u
#define TENON_ATTR_F64S 5u
#define TENON_ATTR_STRINGS 6u
#define TENON_ATTR_DIMS 7u /* symbolic: the output shape of a broadcast, the bounds of a slice */
#define TENON_ATTR_TYPES 8u
#define TENON_ATTR_BLOB 9u
#define TENON_ATTR_DTYPE 10u /* in u.i */

/* A value. Attributes of a node are unique and sorted by the text of their names. count is 1 for
 * the kinds that are not lists. */
typedef struct tenon_attr_t {
  tenon_sym_t name;
  uint32_t kind;
  uint64_t count;
  union {
    int64_t i;
    double f;
    tenon_str_t s;
    const int64_t* is;
    const double* fs;
    const tenon_str_t* ss;
    const tenon_dim_t* dims;
    const tenon_type_t* types;
    tenon_blob_t* blob;
  } u;
} tenon_attr_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif

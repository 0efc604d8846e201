// Completion scripts and the manual page, from the table of commands, so that neither can differ
// from what is parsed.
#include <fmt/core.h>

#include <algorithm>

#include "sdk/tools/tenon/cli/cli.h"

namespace tenon::tools {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

// Options with names; positional arguments are files, or names that only the host knows.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) options.push_back(option);
  }
  return options;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() != 0 && option.get_type_size() != 0;
}

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::App* command : commands_of(app)) words += command->get_name() + " ";
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : names_of(*option)) words += name + " ";
  }
  if (!words.empty()) words.pop_back();
  return words;
}

// `text` in single quotes of a shell.
std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Calls visit(app, path) for the command and all below it: "", "run", "plugins lock".
template <typename Visit>
void each_command(const CLI::App& app, const std::string& path, Visit& visit) {
  visit(app, path);
  for (const CLI::App* command : commands_of(app))
    each_command(*command, path + (path.empty() ? "" : " ") + command->get_name(), visit);
}

std::string bash_script(const CLI::App& app) {
  std::string cases;
  auto visit = [&](const CLI::App& command, const std::string& path) {
    cases +=
        fmt::format("    {}) words={} ;;\n", single_quoted(path), single_quoted(words_of(command)));
  };
  each_command(app, "", visit);
  return "# Completion of the tenon command for bash: source <(tenon completion bash)\n"
         "_tenon() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} path= words= i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case ${COMP_WORDS[i]} in -*) break ;; esac\n"
         "    case \" $(_tenon_words \"$path\") \" in\n"
         "      *\" ${COMP_WORDS[i]} \"*) path=\"${path:+$path }${COMP_WORDS[i]}\" ;;\n"
         "      *) break ;;\n"
         "    esac\n"
         "  done\n"
         "  words=$(_tenon_words \"$path\")\n"
         "  case $word in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) mapfile -t COMPREPLY < <(compgen -W \"${words//-*/}\" -- \"$word\"; compgen -f -- "
         "\"$word\") ;;\n"
         "  esac\n"
         "}\n"
         "_tenon_words() {\n"
         "  local words=\n"
         "  case $1 in\n" +
         cases +
         "  esac\n"
         "  printf '%s' \"$words\"\n"
         "}\n"
         "complete -o filenames -F _tenon tenon\n";
}

// "--name[doc]" and ":value:_files" of zsh's _arguments.
std::string zsh_option(const CLI::Option& option) {
  std::string text, doc = option.get_description();
  std::replace(doc.begin(), doc.end(), '[', '(');
  std::replace(doc.begin(), doc.end(), ']', ')');
  for (const std::string& name : names_of(option)) {
    const std::string value = takes_value(option) ? ":value:_files" : "";
    text += " \\\n        " + single_quoted("*" + name + "[" + doc + "]" + value);
  }
  return text;
}

std::string zsh_script(const CLI::App& app) {
  std::string cases;
  auto visit = [&](const CLI::App& command, const std::string& path) {
    std::string options, names;
    for (const CLI::Option* option : options_of(command)) options += zsh_option(*option);
    for (const CLI::App* inner : commands_of(command)) {
      std::string doc = inner->get_description();
      std::replace(doc.begin(), doc.end(), ':', ';');
      names += " " + single_quoted(inner->get_name() + ":" + doc);
    }
    cases += fmt::format("    {})\n", single_quoted(path));
    if (!names.empty())
      cases += fmt::format("      local -a names=({})\n", names.substr(1)) +
               "      _describe -t commands command names\n";
    cases += "      _arguments" + options + " \\\n        '*:file:_files' ;;\n";
  };
  each_command(app, "", visit);
  std::string known;
  auto list = [&](const CLI::App&, const std::string& path) { known += " " + single_quoted(path); };
  each_command(app, "", list);
  return "#compdef tenon\n"
         "# Completion of the tenon command for zsh: a file _tenon in a folder of fpath\n"
         "_tenon() {\n"
         "  local path= i\n"
         "  local -a known=(" +
         known.substr(1) +
         ")\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n"
         "    local next=\"${path:+$path }${words[i]}\"\n"
         "    (( ${known[(Ie)$next]} )) || break\n"
         "    path=$next\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "}\n"
         "compdef _tenon tenon\n";
}

std::string fish_script(const CLI::App& app) {
  std::string text =
      "# Completion of the tenon command for fish: a file tenon.fish in "
      "~/.config/fish/completions\n";
  auto visit = [&](const CLI::App& command, const std::string& path) {
    std::string at = "__fish_use_subcommand";
    if (!path.empty()) {
      at.clear();
      for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find(' ', begin), path.size());
        at += (at.empty() ? "" : "; and ") +
              ("__fish_seen_subcommand_from " + path.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    for (const CLI::App* inner : commands_of(command))
      text += fmt::format("complete -c tenon -n {} -a {} -d {}\n", single_quoted(at),
                          inner->get_name(), single_quoted(inner->get_description()));
    for (const CLI::Option* option : options_of(command)) {
      std::string names;
      for (const std::string& name : option->get_lnames()) names += " -l " + name;
      for (const std::string& name : option->get_snames()) names += " -s " + name;
      text +=
          fmt::format("complete -c tenon -n {}{}{} -d {}\n", single_quoted(at), names,
                      takes_value(*option) ? " -r" : "", single_quoted(option->get_description()));
    }
  };
  each_command(app, "", visit);
  return text;
}

// Text of a manual page: no line begins a request, and backslashes and hyphens are themselves.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool first = out.empty() || out.back() == '\n';
    if (first && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return bash_script(app);
  if (shell == "zsh") return zsh_script(app);
  return shell == "fish" ? fish_script(app) : "";
}

std::string manual_page(const CLI::App& app, const std::string& version) {
  std::string text = fmt::format(".TH TENON 1 \"\" \"{}\" \"Tenon\"\n.SH NAME\ntenon \\- {}\n",
                                 roff(version), roff(app.get_description()));
  text += ".SH SYNOPSIS\n.B tenon\n.I COMMAND\n[options]\n.SH COMMANDS\n";
  auto visit = [&](const CLI::App& command, const std::string& path) {
    if (path.empty()) return;
    text += fmt::format(".SS \"{}\"\n{}\n", roff("tenon " + path), roff(command.get_description()));
    for (const CLI::Option* option : command.get_options()) {
      std::string names;
      for (const std::string& name : names_of(*option)) names += (names.empty() ? "" : ", ") + name;
      if (names.empty()) names = option->get_name();
      const std::string type = option->get_positional() ? "" : option->get_type_name();
      text += fmt::format(".TP\n.B {}{}\n{}\n", roff(names), type.empty() ? "" : " " + roff(type),
                          roff(option->get_description()));
    }
    if (std::string footer = command.get_footer(); !footer.empty())
      text += ".PP\n.nf\n" + roff(footer.substr(footer.find_first_not_of('\n'))) + "\n.fi\n";
  };
  each_command(app, "", visit);
  text +=
      ".SH \"EXIT STATUS\"\n0 success, 1 wrong result, 2 usage or input error, 3 a plugin or "
      "device failed, 130 interrupted.\n.SH ENVIRONMENT\n"
      "`tenon doctor \\-\\-verbose` lists all variables with their values.\n";
  return text;
}

}  // namespace tenon::tools

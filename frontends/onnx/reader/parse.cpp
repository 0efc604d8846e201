// The wire format, through protozero: one switch per message. Fields of unexpected kinds are
// skipped, as protobuf does. protozero checks lengths, groups and varints; its exceptions are
// caught here.
#define PROTOZERO_USE_VIEW std::string_view
#include <fmt/format.h>

#include <protozero/pbf_reader.hpp>

#include <string_view>

#include "frontends/onnx/reader/model.h"
#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr uint32_t number(uint32_t field) {
  return protozero::tag_and_type(field, pbf_wire_type::varint);
}
constexpr uint32_t bytes(uint32_t field) {
  return protozero::tag_and_type(field, pbf_wire_type::length_delimited);
}
constexpr uint32_t word(uint32_t field) {
  return protozero::tag_and_type(field, pbf_wire_type::fixed32);
}

constexpr std::string_view kNoVariable = "";
constexpr std::string_view kNodes = "; TENON_LIMIT_NODES raises it";
constexpr std::string_view kOperands = "; TENON_LIMIT_OPERANDS raises it";

class Parser {
 public:
  explicit Parser(Problems* problems) : problems_(problems) {}

  void model(pbf_reader m, ModelProto* out) {
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case number(1):
          out->ir_version = m.get_int64();
          break;
        case bytes(8):
          opset(m.get_message(), &out->opsets.emplace_back());
          break;
        case bytes(7):
          out->graph = std::make_unique<GraphProto>();
          graph(m.get_message(), out->graph.get(), 0);
          break;
        case bytes(25):
          function(m.get_message(), &out->functions.emplace_back());
          break;
        default:
          m.skip();
      }
    }
  }
  bool ok() const { return ok_; }

 private:
  void limit(std::string_view what, size_t is, size_t most, std::string_view variable) {
    if (ok_)
      problems_->add("T0102", fmt::format("{} {}, the limit is {}{}", what, is, most, variable));
    ok_ = false;
  }

  // Reads a name: bounded, and printable text.
  Text name(pbf_reader& m, std::string_view what) {
    const Text text = m.get_view();
    if (text.size() > limits().name_bytes) {
      limit(fmt::format("a {} is too long ({}): its bytes are", what, quote(text.substr(0, 32))),
            text.size(), limits().name_bytes, "; TENON_LIMIT_NAME_BYTES raises it");
    } else if (!is_name_text(text)) {
      if (ok_)
        problems_->add("T0701",
                       fmt::format("the {} {} is not UTF-8 text without NUL", what, quote(text)));
      ok_ = false;
    }
    return text;
  }

  // Appends an item to a list with a limit.
  template <class T>
  T* grow(std::vector<T>* list, std::string_view what, size_t most,
          std::string_view variable = kNoVariable) {
    if (list->size() == most)
      limit(fmt::format("there are too many {}: at least", what), most + 1, most, variable);
    if (!ok_) list->clear();  // after an error, items go into a list that is not read
    return &list->emplace_back();
  }

  void ints(pbf_reader& m, std::vector<int64_t>* out, size_t most, std::string_view what) {
    const auto add = [&](int64_t value) {
      if (out->size() == most) limit(what, most + 1, most, kNoVariable);
      if (ok_) out->push_back(value);
      return ok_;
    };
    if (m.wire_type() == pbf_wire_type::varint) {
      add(m.get_int64());
    } else {
      for (const int64_t value : m.get_packed_int64()) {
        if (!add(value)) break;
      }
    }
  }

  void opset(pbf_reader m, OpsetProto* out) {
    while (m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          out->domain = name(m, "domain");
          break;
        case number(2):
          out->version = m.get_int64();
          break;
        default:
          m.skip();
      }
    }
  }

  void graph(pbf_reader m, GraphProto* out, size_t depth) {
    if (depth > limits().depth)
      return limit("graphs are nested too deep: the levels are at least", depth, limits().depth,
                   "; TENON_LIMIT_DEPTH raises it");
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          node(m.get_message(), grow(&out->nodes, "nodes", limits().nodes, kNodes), depth);
          break;
        case bytes(2):
          out->name = name(m, "graph name");
          break;
        case bytes(5):
          tensor(m.get_view(), grow(&out->initializers, "initializers", limits().nodes, kNodes));
          break;
        case bytes(11):
          value(m.get_message(), grow(&out->inputs, "inputs", limits().operands, kOperands));
          break;
        case bytes(12):
          value(m.get_message(), grow(&out->outputs, "outputs", limits().operands, kOperands));
          break;
        case bytes(15):
          *grow(&out->sparse_initializers, "sparse initializers", limits().nodes, kNodes) =
              m.get_view();
          break;
        default:
          m.skip();
      }
    }
    for (size_t i = 0; i < out->nodes.size(); ++i) out->nodes[i].index = static_cast<uint32_t>(i);
  }

  void node(pbf_reader m, NodeProto* out, size_t depth) {
    if (++nodes_ > limits().nodes)
      return limit("there are too many nodes: at least", nodes_, limits().nodes, kNodes);
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          *grow(&out->inputs, "inputs of one node", limits().operands, kOperands) =
              name(m, "value name");
          break;
        case bytes(2):
          *grow(&out->outputs, "outputs of one node", limits().operands, kOperands) =
              name(m, "value name");
          break;
        case bytes(3):
          out->name = name(m, "node name");
          break;
        case bytes(4):
          out->op_type = name(m, "op");
          break;
        case bytes(5):
          attribute(m.get_message(),
                    grow(&out->attributes, "attributes of one node", kMaxAttributes), depth);
          break;
        case bytes(7):
          out->domain = name(m, "domain");
          break;
        case bytes(8):
          out->overload = name(m, "overload");
          break;
        default:
          m.skip();
      }
    }
  }

  void attribute(pbf_reader m, AttributeProto* out, size_t depth) {
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          out->name = name(m, "attribute name");
          break;
        case word(2):
          out->f = m.get_float();
          break;
        case number(3):
          out->i = m.get_int64();
          break;
        case bytes(4):
          out->s = m.get_view();
          break;
        case bytes(5):
          out->tensor = std::make_unique<TensorProto>();
          tensor(m.get_view(), out->tensor.get());
          break;
        case bytes(6):
        case bytes(11):
          out->graphs.push_back(std::make_unique<GraphProto>());
          graph(m.get_message(), out->graphs.back().get(), depth + 1);
          break;
        case word(7):
          *grow(&out->floats, "numbers in an attribute", kMaxAttributeItems) = m.get_float();
          break;
        case bytes(7):
          for (const float f : m.get_packed_float())
            *grow(&out->floats, "numbers in an attribute", kMaxAttributeItems) = f;
          break;
        case number(8):
        case bytes(8):
          ints(m, &out->ints, kMaxAttributeItems,
               "there are too many numbers in an attribute: at least");
          break;
        case bytes(9):
          *grow(&out->strings, "texts in an attribute", limits().operands, kOperands) =
              m.get_view();
          break;
        case number(20):
          out->type = m.get_int32();
          break;
        case bytes(21):
          out->reference = name(m, "attribute name");
          break;
        default:
          m.skip();
      }
    }
  }

  void tensor(Text message, TensorProto* out) {
    out->message = message;
    pbf_reader m(message);
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case number(1):
        case bytes(1):
          ints(m, &out->dims, TENON_RANK_MAX, "the rank of a tensor is too high: at least");
          break;
        case number(2):
          out->data_type = m.get_int32();
          break;
        case bytes(3):
          out->segmented = true, m.skip();
          break;
        case bytes(8):
          out->name = name(m, "tensor name");
          break;
        case bytes(9):
          out->has_raw = true, out->raw = m.get_view();
          break;
        case bytes(13):
          entry(m.get_message(), grow(&out->external, "external data keys", 64));
          break;
        case number(14):
          out->is_external = m.get_int32() == 1;
          break;
        case word(4):
        case bytes(4):
        case number(5):
        case bytes(5):
        case bytes(6):
        case number(7):
        case bytes(7):
        case bytes(10):
        case protozero::tag_and_type(10, pbf_wire_type::fixed64):
        case number(11):
        case bytes(11):
          out->typed_fields |= 1u << m.tag();
          m.skip();
          break;
        default:
          m.skip();
      }
    }
  }

  void entry(pbf_reader m, std::pair<Text, Text>* out) {
    while (m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          out->first = m.get_view();
          break;
        case bytes(2):
          out->second = m.get_view();
          break;
        default:
          m.skip();
      }
    }
  }

  void value(pbf_reader m, ValueProto* out) {
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          out->name = name(m, "value name");
          break;
        case bytes(2):
          type(m.get_message(), out);
          break;
        default:
          m.skip();
      }
    }
  }

  void type(pbf_reader m, ValueProto* out) {
    while (ok_ && m.next()) {
      if (m.tag_and_type() != bytes(1)) {
        m.skip();
        continue;
      }
      out->is_tensor = true;
      pbf_reader t = m.get_message();
      while (ok_ && t.next()) {
        switch (t.tag_and_type()) {
          case number(1):
            out->elem_type = t.get_int32();
            break;
          case bytes(2):
            out->has_shape = true;
            shape(t.get_message(), out);
            break;
          default:
            t.skip();
        }
      }
    }
  }

  void shape(pbf_reader m, ValueProto* out) {
    while (ok_ && m.next()) {
      if (m.tag_and_type() != bytes(1)) {
        m.skip();
        continue;
      }
      if (out->dims.size() == TENON_RANK_MAX) {
        return limit(fmt::format("the rank of {} is too high: at least", quote(out->name)),
                     TENON_RANK_MAX + 1, TENON_RANK_MAX, kNoVariable);
      }
      DimProto& dim = out->dims.emplace_back();
      pbf_reader d = m.get_message();
      while (ok_ && d.next()) {
        switch (d.tag_and_type()) {
          case number(1):
            dim.has_value = true, dim.value = d.get_int64();
            break;
          case bytes(2):
            dim.param = name(d, "symbolic dim");
            break;
          default:
            d.skip();
        }
      }
    }
  }

  void function(pbf_reader m, FunctionProto* out) {
    while (ok_ && m.next()) {
      switch (m.tag_and_type()) {
        case bytes(1):
          out->name = name(m, "function name");
          break;
        case bytes(4):
          *grow(&out->inputs, "inputs of a function", limits().operands, kOperands) =
              name(m, "value name");
          break;
        case bytes(5):
          *grow(&out->outputs, "outputs of a function", limits().operands, kOperands) =
              name(m, "value name");
          break;
        case bytes(6):
          *grow(&out->attribute_names, "attributes of a function", kMaxAttributes) =
              name(m, "attribute name");
          break;
        case bytes(7):
          node(m.get_message(), grow(&out->nodes, "nodes", limits().nodes, kNodes), 1);
          break;
        case bytes(9):
          opset(m.get_message(), &out->opsets.emplace_back());
          break;
        case bytes(10):
          out->domain = name(m, "domain");
          break;
        case bytes(11):
          attribute(m.get_message(),
                    grow(&out->defaults, "attributes of a function", kMaxAttributes), 1);
          break;
        case bytes(13):
          out->overload = name(m, "overload");
          break;
        default:
          m.skip();
      }
    }
    for (size_t i = 0; i < out->nodes.size(); ++i) out->nodes[i].index = static_cast<uint32_t>(i);
  }

  Problems* problems_;
  size_t nodes_ = 0;
  bool ok_ = true;
};

bool index_functions(ModelProto* model, Problems* problems) {
  for (const FunctionProto& f : model->functions) {
    if (!model->function_of.try_emplace(function_key(f.domain, f.name, f.overload), &f).second) {
      return problems->add("T0705", fmt::format("two functions have the name {} and domain {}",
                                                quote(f.name), quote(f.domain)));
    }
  }
  return true;
}

}  // namespace

std::string function_key(Text domain, Text name, Text overload) {
  // Names contain no NUL, so the parts cannot run into each other.
  std::string key(domain == "ai.onnx" ? Text() : domain);
  return key.append(1, '\0').append(name).append(1, '\0').append(overload);
}

bool parse_model(Text bytes, ModelProto* out, Problems* problems) {
  if (bytes.empty()) return problems->add("T0701", "the file is empty");
  try {
    Parser parser(problems);
    parser.model(pbf_reader(bytes), out);
    return parser.ok() && index_functions(out, problems);
  } catch (const protozero::exception&) {
    return problems->add("T0701",
                         "it is not an ONNX model, or is cut or damaged: its protobuf structure is "
                         "broken. Export it "
                         "again, or check the download");
  }
}

}  // namespace tenon::onnx

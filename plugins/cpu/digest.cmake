# Writes OUTPUT with the digest of FILES, the sources that affect generated code. Cache keys contain
# it.
set(all "${VERSION}")
foreach(file ${FILES})
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 32 digest)
file(WRITE ${OUTPUT} "#define TENON_CPU_DIGEST \"${digest}\"\n")

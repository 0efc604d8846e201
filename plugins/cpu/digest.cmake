# Writes OUTPUT with the digest of FILES: what shapes generated code, for the keys of the cache.
set(all "${VERSION}")
foreach(file ${FILES})
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 32 digest)
file(WRITE ${OUTPUT} "#define TENON_CPU_DIGEST \"${digest}\"\n")

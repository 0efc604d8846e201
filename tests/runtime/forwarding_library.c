/* A library that wraps Tenon and passes tenon_host_open on, as tools that record calls do. The test
 * loads it before libtenon, and sets where the calls go. */
#include <tenon/abi/host.h>
#include <tenon/abi/session.h>

TENON_EXPORT tenon_code_t (*forward_to)(uint32_t, const tenon_host_options_t*,
                                        const tenon_host_t**) = 0;

TENON_EXPORT tenon_code_t tenon_host_open(uint32_t abi, const tenon_host_options_t* options,
                                          const tenon_host_t** out_host) {
  return forward_to(abi, options, out_host);
}

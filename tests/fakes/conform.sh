#!/bin/sh
# tenon conform of a vendor's plugin on its tests' driver, level 4: conform.sh TENON MANIFEST. Values of all ops
# (group F), which compile a thousand kernels, with CHECK_FULL=1.
if [ "$CHECK_FULL" = 1 ]; then
  exec "$1" conform "$2" --jobs 2 --level 4
fi
exec "$1" conform "$2" --jobs 2 --level 4 --filter 'A.*,B.*,C.*,D.*,E.*,I.*,J.*'

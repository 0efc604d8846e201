# The pass on test.tir must print expected.tir.   sh text_test.sh TENON
"$1" opt test.tir --verify-each --passes fuse_logsumexp | diff expected.tir -

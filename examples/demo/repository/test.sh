#!/bin/sh
# test.sh checks cart.sh against known totals.
failed=0

# check PRICE COUNT TOTAL
check() {
	got=$(sh cart.sh "$1" "$2")
	if [ "$got" = "$3" ]; then
		echo "ok    $2 x $1 = $3"
	else
		echo "FAIL  $2 x $1: want $3, got $got"
		failed=1
	fi
}

check 250 1 250
check 100 9 900
check 100 10 900
check 100 20 1800
exit $failed

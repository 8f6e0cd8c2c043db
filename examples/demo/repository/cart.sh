#!/bin/sh
# cart.sh PRICE COUNT prints what COUNT things at PRICE cents cost. From ten things on there are 10 % off.
price=$1
count=$2

total=$((price * count))
if [ "$count" -gt 10 ]; then
	total=$((total - total / 10))
fi
echo "$total"

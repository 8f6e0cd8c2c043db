//go:build race

package main

// raceFlags build the commands as this test was built.
var raceFlags = []string{"-race"}

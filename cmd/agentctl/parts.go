package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// part is an item of an ended group.
type part struct {
	id       string
	standing string // of a step of a chain that is no child of this group; empty: it is one
}

// parts are all items of a group, in the order asked. Its children are but a part of a chain: a step that it kept from an
// earlier one is none of them, nor is one that never ran. The summary has a heading for each, ids in rising order: those
// kept stand before the first child and are older than the group.
func parts(group *agentdv1.Outcome) []part {
	heading := regexp.MustCompile(`(?m)^## ([a-z]+-[0-9]+) (COMPLETED|FAILED [A-Z_]+|KILLED [A-Z_]+|did not run)$`)
	children := group.GetChildren()
	var kept, own, rest []part
	for _, id := range children {
		own = append(own, part{id: id})
	}
	last, begun := 0, false
	for _, found := range heading.FindAllStringSubmatch(group.GetSummary(), -1) {
		id, standing := found[1], found[2]
		n := number(id)
		if n <= last { // a task's own words look like a heading
			continue
		}
		switch older := n < number(group.GetTaskId()); {
		case slices.Contains(children, id):
			begun = true
		case standing == "did not run" && !older:
			begun, rest = true, append(rest, part{id, standing})
		case older && !begun:
			kept = append(kept, part{id, standing + ", kept from an earlier chain"})
		default:
			continue
		}
		last = n
	}
	return slices.Concat(kept, own, rest)
}

// number is that of a task's id.
func number(id string) int {
	_, digits, _ := strings.Cut(id, "-")
	n, _ := strconv.Atoi(digits) // the daemon's own: always a number
	return n
}

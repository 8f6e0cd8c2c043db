package task

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names a task in the daemon for ever, such as `sub-17`. Ids are never reused; gaps are fine.
type ID string

// Kind tells what a task runs.
type Kind uint8

// The kinds.
const (
	Subagent Kind = iota + 1 // runs one assignment in a fresh context; ids sub-N
	Shell                    // runs a command line; ids sh-N
	Group                    // runs others, side by side or one after the other; ids grp-N
	Teammate                 // lives on between its turns and has a name; ids tm-N
)

// Kinds lists all kinds in order.
func Kinds() []Kind { return []Kind{Subagent, Shell, Group, Teammate} }

// Prefix is what the kind's ids start with, such as "sub-".
func (k Kind) Prefix() string {
	switch k {
	case Subagent:
		return "sub-"
	case Shell:
		return "sh-"
	case Group:
		return "grp-"
	case Teammate:
		return "tm-"
	}
	return ""
}

// String is the contract's word for the kind; empty for none.
func (k Kind) String() string {
	switch k {
	case Subagent:
		return "SUBAGENT"
	case Shell:
		return "SHELL"
	case Group:
		return "GROUP"
	case Teammate:
		return "TEAMMATE"
	}
	return ""
}

// IsAgent tells whether such a task asks a model and takes mail.
func (k Kind) IsAgent() bool { return k == Subagent || k == Teammate }

// NewID makes the id of the n-th task.
func NewID(k Kind, n uint64) ID { return ID(fmt.Sprintf("%s%d", k.Prefix(), n)) }

// ParseID takes an id apart; false when it is none.
func ParseID(id ID) (Kind, uint64, bool) {
	for _, k := range Kinds() {
		digits, ok := strings.CutPrefix(string(id), k.Prefix())
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		return k, n, err == nil && NewID(k, n) == id
	}
	return 0, 0, false
}

// Kind is the kind of the task with this id; 0 when it is no id.
func (id ID) Kind() Kind {
	k, _, _ := ParseID(id)
	return k
}

// Number orders ids like the creation of their tasks within a team.
func (id ID) Number() uint64 {
	_, n, _ := ParseID(id)
	return n
}

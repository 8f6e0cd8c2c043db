package sandbox

import "strings"

// mark says which store, task and start a process belongs to.
type mark struct{ store, task, start string }

// String is the mark as the value of TaskVariable.
func (m mark) String() string { return m.store + "/" + m.task + "/" + m.start }

// parseMark reads the value of TaskVariable; the zero mark when it is none.
func parseMark(value string) mark {
	parts := strings.Split(value, "/")
	if len(parts) != 3 {
		return mark{}
	}
	return mark{parts[0], parts[1], parts[2]}
}

// markIn finds the mark in an environment whose entries end with NUL.
func markIn(environ string) mark {
	for entry := range strings.SplitSeq(environ, "\x00") {
		if value, ok := strings.CutPrefix(entry, TaskVariable+"="); ok {
			return parseMark(value)
		}
	}
	return mark{}
}

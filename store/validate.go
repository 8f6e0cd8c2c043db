package store

import "github.com/agentd-dev/agentd/internal/errdefs"

// Validate tells whether b keeps the limits and the rules of names. Its errors are InvalidArgument: TooLarge beyond a
// limit, BadArgument for a wrong name, kind or vector and for a record that stands twice. Every Store calls it first.
func (b Batch) Validate() error {
	switch {
	case len(b.Ops) > MaxOps:
		return tooLarge(string(b.Part), "a batch has at most %d operations, not %d", MaxOps, len(b.Ops))
	case len(b.Guards) > MaxGuards:
		return tooLarge(string(b.Part), "a batch has at most %d guards, not %d", MaxGuards, len(b.Guards))
	}
	if err := b.Part.Validate(); err != nil {
		return err
	}
	if err := b.validateGuards(); err != nil {
		return err
	}
	return b.validateOps()
}

func (b Batch) validateGuards() error {
	if b.Fence != (Guard{}) {
		if err := ValidateName(b.Fence.Key); err != nil {
			return err
		}
	}
	for _, g := range b.Guards {
		if err := ValidateName(g.Key); err != nil {
			return err
		}
	}
	return nil
}

func (b Batch) validateOps() error {
	total, seen := 0, make(map[string]bool, len(b.Ops))
	for _, op := range b.Ops {
		if err := op.validate(); err != nil {
			return err
		}
		if total += len(op.Value); total > MaxBatch {
			return tooLarge(string(b.Part), "the values of a batch have at most %d bytes together", MaxBatch)
		}
		if op.Kind == Append {
			continue
		}
		if seen[op.Name] {
			return badArgument(op.Name, "the record %q stands twice in a batch", op.Name)
		}
		seen[op.Name] = true
	}
	return nil
}

func (op Op) validate() error {
	if err := ValidateName(op.Name); err != nil {
		return err
	}
	if len(op.Value) > MaxValue {
		return tooLarge(op.Name, "the value of %q has %d bytes, at most %d are allowed", op.Name, len(op.Value), MaxValue)
	}
	switch op.Kind {
	case Append, Put:
	case Delete:
		if len(op.Value) > 0 {
			return badArgument(op.Name, "the deletion of %q carries a value", op.Name)
		}
	case Add:
		if _, err := DecodeVector(op.Value); err != nil {
			return badArgument(op.Name, "what is added to %q is not a vector", op.Name)
		}
	default:
		return badArgument(op.Name, "the operation on %q has no known kind (%d)", op.Name, op.Kind)
	}
	return nil
}

// Validate tells whether p is one segment of a name.
func (p Partition) Validate() error {
	if len(p) > MaxNameBytes || !isSegment(string(p)) {
		return badArgument(string(p), "%q is not the name of a partition", string(p))
	}
	return nil
}

// ValidateName tells whether name is segments of [A-Za-z0-9_-]+ joined by '/', at most MaxNameBytes long.
func ValidateName(name string) error {
	if len(name) > MaxNameBytes {
		return tooLarge(name, "a name has at most %d bytes, not %d", MaxNameBytes, len(name))
	}
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if !isSegment(name[start:i]) {
			return badArgument(name, "%q is not a name of the store", name)
		}
		start = i + 1
	}
	return nil
}

func isSegment(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

func tooLarge(subject, format string, args ...any) error {
	return errdefs.New(errdefs.InvalidArgument, errdefs.TooLarge, subject, "store: "+format, args...)
}

func badArgument(subject, format string, args ...any) error {
	return errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, subject, "store: "+format, args...)
}

// Size is the number of bytes of all values of b.
func (b Batch) Size() int {
	size := 0
	for _, op := range b.Ops {
		size += len(op.Value)
	}
	return size
}

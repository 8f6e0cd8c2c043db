package main

import (
	"fmt"
	"io"
)

// stdout is where the data goes. It keeps the first error, so that who prints a text of many parts looks once, at the
// end; and with one no command succeeds, however it ends.
type stdout struct {
	w   io.Writer
	err error
}

// Write writes, unless that has failed before.
func (s *stdout) Write(text []byte) (n int, err error) {
	if s.err == nil {
		if n, err = s.w.Write(text); err != nil {
			s.err = fmt.Errorf("stdout can't be written: %w", err)
		}
	}
	return n, s.err
}

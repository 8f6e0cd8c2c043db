package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// redrawEvery is the shortest time between two drawings of a screen.
const redrawEvery = 100 * time.Millisecond

// screen shows a block of lines at the bottom of a terminal, and above it what others write. One goroutine does both, so
// that they can't mix: the one of run.
type screen struct {
	terminal io.Writer
	colours  bool
	draw     func(width, height int) []line // the block as it is now, lines of fewer columns than width
	writes   chan write
	changed  chan struct{} // the block is another one; holds one
	over     chan struct{} // closed when the block is gone for good
	shown    []line        // the block on the terminal
	drawn    time.Time
}

// write is a text for a stream; done gets what came of it.
type write struct {
	to   io.Writer
	text []byte
	done chan error
}

func newScreen(terminal io.Writer, colours bool, draw func(width, height int) []line) *screen {
	return &screen{
		terminal: terminal, colours: colours, draw: draw,
		writes: make(chan write), changed: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// run keeps the block until ctx ends, and takes it away then.
func (s *screen) run(ctx context.Context) error {
	defer close(s.over)
	defer func() { fmt.Fprint(s.terminal, s.erase()) }()
	due := time.NewTimer(redrawEvery)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-s.writes:
			fmt.Fprint(s.terminal, s.erase())
			_, err := w.to.Write(w.text)
			w.done <- err
		case <-s.changed:
		case <-due.C:
			s.redraw()
			due.Reset(time.Second) // the clocks go on
			continue
		}
		due.Reset(max(0, redrawEvery-time.Since(s.drawn)))
	}
}

// touch asks for a drawing soon.
func (s *screen) touch() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// erase is what takes the block away and puts the cursor where it began. A terminal that became narrower has broken its
// lines.
func (s *screen) erase() string {
	width, _ := screenSize(s.terminal)
	rows := 0
	for _, line := range s.shown {
		rows += 1 + max(0, columns(line.text)-1)/width
	}
	s.shown = nil
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", rows)
}

// redraw puts the block as it is now in place of the one that is shown.
func (s *screen) redraw() {
	width, height := screenSize(s.terminal)
	lines := s.draw(width, height)
	var block strings.Builder
	block.WriteString(s.erase())
	for _, line := range lines {
		if s.colours && line.colour != "" {
			line.text = "\x1b[" + line.colour + "m" + line.text + "\x1b[0m"
		}
		block.WriteString(line.text + "\n")
	}
	fmt.Fprint(s.terminal, block.String())
	s.shown, s.drawn = lines, time.Now()
}

// above is a stream whose text goes above the block.
type above struct {
	screen *screen
	to     io.Writer
}

// Write returns when the text is written.
func (a above) Write(text []byte) (int, error) {
	w := write{to: a.to, text: text, done: make(chan error, 1)}
	select {
	case a.screen.writes <- w:
		if err := <-w.done; err != nil {
			return 0, err
		}
		return len(text), nil
	case <-a.screen.over:
		return a.to.Write(text)
	}
}

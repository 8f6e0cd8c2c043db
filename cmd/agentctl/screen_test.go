package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tape keeps what is written to it until somebody takes it.
type tape struct {
	mu   sync.Mutex
	text string
}

// Write appends.
func (t *tape) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text += string(text)
	return len(text), nil
}

func (t *tape) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text
	t.text = ""
	return text
}

// TestScreen: what others write goes above the block, which is drawn again after it, at most ten times a second, and is
// gone in the end.
func TestScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal tape
		var drawings atomic.Int32
		begin := time.Now()
		s := newScreen(&terminal, true, func(width, height int) []line {
			drawings.Add(1)
			return []line{{"block", "31"}, {fmt.Sprint(width, "x", height, " ", time.Since(begin)), ""}}
		})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.run(ctx) }()
		_, _ = io.WriteString(above{s, &terminal}, "first\n") // nothing is drawn yet: at once
		synctest.Wait()
		for range 50 { // half a second
			s.touch()
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := drawings.Load(); n < 5 || n > 6 {
			t.Errorf("%d drawings in half a second", n)
		}
		time.Sleep(3250 * time.Millisecond) // without a change it is drawn once a second
		synctest.Wait()
		if n := drawings.Load(); n < 8 || n > 10 {
			t.Errorf("%d drawings in 3.75 s", n)
		}
		terminal.take()
		_, _ = io.WriteString(above{s, &terminal}, "second\n")
		synctest.Wait()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(above{s, &terminal}, "last\n") // straight on
		const erase = "\x1b[2A\r\x1b[J"
		block := "\x1b[31mblock\x1b[0m\n80x24 3.75s\n"
		if got := terminal.take(); got != erase+"second\n"+block+erase+"last\n" {
			t.Errorf("the terminal got %q", got)
		}
	})
}

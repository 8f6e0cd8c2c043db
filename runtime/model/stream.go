package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

const (
	// tailTimeout bounds the wait for usage and [DONE] after the answer's finish reason has come.
	tailTimeout = 5 * time.Second
	// drainTimeout bounds the wait for the end of the body after [DONE], without which the connection is not used again.
	drainTimeout = 100 * time.Millisecond
)

// stall is the cause of a call that the watchdog ended.
type stall time.Duration

func (s stall) Error() string {
	return fmt.Sprintf("the stream stalled: nothing came for %s", time.Duration(s))
}

// watchdog cancels a call whose server is silent for too long. It runs while the call waits for the server, never
// while the call's own sink is busy.
type watchdog struct {
	timer *time.Timer
	limit atomic.Int64  // nanoseconds of the wait under way
	idle  time.Duration // of every wait after the first byte
}

// startWatchdog starts waiting for the headers.
func startWatchdog(first, idle time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{idle: idle}
	w.limit.Store(int64(first))
	w.timer = time.AfterFunc(first, func() { cancel(stall(w.limit.Load())) })
	return w
}

func (w *watchdog) stop() { w.timer.Stop() }

// shorten lowers the bound of the waits to come.
func (w *watchdog) shorten(d time.Duration) {
	w.idle = min(w.idle, d)
	w.limit.Store(min(w.limit.Load(), int64(d)))
}

// watch puts body under the watchdog.
func (w *watchdog) watch(body io.ReadCloser) io.ReadCloser {
	w.stop()
	return &watchedBody{ReadCloser: body, dog: w}
}

type watchedBody struct {
	io.ReadCloser
	dog *watchdog
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.dog.timer.Reset(time.Duration(b.dog.limit.Load()))
	n, err := b.ReadCloser.Read(p)
	b.dog.stop()
	if n > 0 {
		b.dog.limit.Store(int64(b.dog.idle))
	}
	return n, err
}

// readStream feeds the events of the stream to a. nil means that the stream ended, not that the answer is complete.
func readStream(raw *http.Response, w *watchdog, a *answer) error {
	body := raw.Body
	raw.Body = io.NopCloser(body) // the stream closes at [DONE]; what follows is drained here
	events := &tolerant{Decoder: ssestream.NewDecoder(raw)}
	stream := ssestream.NewStream[chunk](events, nil)
	for stream.Next() {
		c := stream.Current()
		if c.failed() || events.last.Type == "error" {
			return inStream(events.last.Data)
		}
		if err := a.add(c); err != nil {
			return err
		}
		if a.finished() {
			w.shorten(tailTimeout)
		}
	}
	var failed *ssestream.StreamError
	switch err := stream.Err(); {
	case errors.As(err, &failed):
		return inStream(failed.Event.Data)
	case err != nil:
		return brokenOff(err)
	}
	w.shorten(drainTimeout)
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	return nil
}

func brokenOff(cause error) *Error {
	return &Error{Class: Broken, Message: "its answer broke off", Cause: cause}
}

// tolerant hides `"error":null` from openai-go, which takes the mere presence of the key for a failure, and remembers
// the last event.
type tolerant struct {
	ssestream.Decoder
	last ssestream.Event
}

// Event is the last event. Quotes within a JSON string are escaped, so what is found is a key, and renaming it in place
// is safe.
func (d *tolerant) Event() ssestream.Event {
	d.last = d.Decoder.Event()
	key := []byte(`"error"`)
	for rest := d.last.Data; ; {
		i := bytes.Index(rest, key)
		if i < 0 {
			return d.last
		}
		after, colon := bytes.CutPrefix(bytes.TrimLeft(rest[i+len(key):], " \t\r\n"), []byte(":"))
		if colon && bytes.HasPrefix(bytes.TrimLeft(after, " \t\r\n"), []byte("null")) {
			rest[i+1] = '_'
		}
		rest = rest[i+len(key):]
	}
}

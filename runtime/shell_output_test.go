package runtime

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/task"
)

// case OUT-6, proves O4: whatever is written in whatever pieces, commits take little at once, runes stay whole, each stream
// is there in its order, and what is missing is one gap before the end, as long as it says.
func TestCollector(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := []byte(strings.Repeat("a\u00e9\u6f22\U0001F600e\u0301\n", 50_000))
	for range 300 {
		quota := int64(rng.IntN(3) * rng.IntN(200_000))
		total := &allowance{left: 1 + int64(rng.IntN(3)*rng.IntN(200_000))}
		before := total.left
		c := newCollector(quota, total)
		most := 1 + rng.IntN(1<<rng.IntN(16))
		rest := map[task.Stream][]byte{task.Stdout: text[:rng.IntN(len(text))], task.Stderr: text[:rng.IntN(1000)]}
		whole := map[task.Stream]string{task.Stdout: string(rest[task.Stdout]), task.Stderr: string(rest[task.Stderr])}
		var got []*task.Output
		for i := 0; i < 3000 && len(rest[task.Stdout])+len(rest[task.Stderr]) > 0; i++ {
			s := task.Stdout
			if rng.IntN(2) == 0 {
				s = task.Stderr
			}
			n := min(rng.IntN(most)+1, len(rest[s]))
			if _, err := c.stream(s).Write(rest[s][:n]); err != nil {
				t.Fatal(err)
			}
			rest[s] = rest[s][n:]
			for c.many() {
				got = append(got, piecesOf(c.next())...)
			}
		}
		for s := range whole {
			whole[s] = strings.TrimSuffix(whole[s], string(rest[s]))
		}
		c.close()
		for c.many() {
			got = append(got, piecesOf(c.next())...)
		}
		last := c.rest()
		if len(last) > fullPieces+tailPieces+2 {
			t.Fatalf("%d entries are left for the end", len(last))
		}
		got = append(got, piecesOf(last)...)
		checkCollected(t, got, whole)
		c.release()
		if total.left != before {
			t.Fatalf("%d of %d given back", total.left, before)
		}
	}
}

// piecesOf are the pieces among bodies.
func piecesOf(bodies []task.Body) []*task.Output {
	var pieces []*task.Output
	for _, b := range bodies {
		if out, ok := b.(*task.Output); ok {
			pieces = append(pieces, out)
		}
	}
	return pieces
}

// checkCollected compares pieces with what was written, up to a rune that the end cuts.
func checkCollected(t *testing.T, got []*task.Output, whole map[task.Stream]string) {
	t.Helper()
	var next, dropped int64
	size := 0
	streams := map[task.Stream]*bytes.Buffer{task.Stdout: {}, task.Stderr: {}}
	tail := map[task.Stream]*bytes.Buffer{task.Stdout: {}, task.Stderr: {}}
	for i, p := range got {
		if p.Offset != next+p.Dropped || len(p.Data) == 0 || len(p.Data) > pieceSize || p.Dropped > 0 && dropped > 0 {
			t.Fatalf("piece %d of %d: %d bytes at %d after %d, %d dropped", i, len(got), len(p.Data), p.Offset, next, p.Dropped)
		}
		if i < len(got)-2 && !utf8.Valid(p.Data) {
			t.Fatalf("piece %d of %d cuts a rune", i, len(got))
		}
		next, dropped, size = p.Offset+int64(len(p.Data)), dropped+p.Dropped, size+len(p.Data)
		if dropped > 0 {
			tail[p.Stream].Write(p.Data)
		} else {
			streams[p.Stream].Write(p.Data)
		}
	}
	if want := len(whole[task.Stdout]) + len(whole[task.Stderr]); int64(size)+dropped != int64(want) {
		t.Fatalf("%d kept and %d dropped of %d", size, dropped, want)
	}
	for s, text := range whole {
		if !strings.HasPrefix(text, streams[s].String()) || !strings.HasSuffix(text, tail[s].String()) ||
			dropped == 0 && streams[s].String() != text {
			t.Fatalf("stream %d: %d and %d bytes, %d dropped", s, streams[s].Len(), tail[s].Len(), dropped)
		}
	}
}

// proves O4: whoever writes more than a commit takes waits for it.
func TestCollectorHoldsBack(t *testing.T) {
	c := newCollector(DefaultShellQuota, &allowance{left: DefaultShellTotal})
	w := c.stream(task.Stdout)
	if _, err := w.Write(make([]byte, pieceSize)); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = w.Write([]byte("more"))
	}()
	select {
	case <-wrote:
		t.Error("it did not wait")
	default:
	}
	if !c.await() || len(c.next()) != 1 {
		t.Error("nothing to commit")
	}
	<-wrote
	if !c.await() || len(c.next()) != 1 {
		t.Error("nothing to commit")
	}
	c.close()
	if c.await() {
		t.Error("more after the end")
	}
}

func BenchmarkOutputBeyondTheQuota(b *testing.B) {
	c := newCollector(1<<10, &allowance{left: DefaultShellTotal})
	w := c.stream(task.Stdout)
	piece := make([]byte, 32<<10)
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		if _, err := w.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
}

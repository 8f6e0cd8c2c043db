package bolt_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := benchStore(b)
			value := make([]byte, 300)
			var next atomic.Int64
			done := make(chan struct{}, writers)
			b.ResetTimer()
			for w := range writers {
				go func() {
					defer func() { done <- struct{}{} }()
					name := fmt.Sprintf("task/%d", w)
					for next.Add(1) <= int64(b.N) {
						_, err := s.Commit(context.Background(), store.Batch{Part: "t-1", Ops: []store.Op{
							{Kind: store.Put, Name: name, Value: value},
							{Kind: store.Append, Name: "log/" + name, Value: value},
						}})
						if err != nil {
							b.Error(err)
							return
						}
					}
				}()
			}
			for range writers {
				<-done
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	for i := range 1000 {
		_, err := s.Commit(context.Background(), store.Batch{Part: "t-1", Ops: []store.Op{
			{Kind: store.Put, Name: fmt.Sprintf("task/%d", i), Value: make([]byte, 300)},
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Get(context.Background(), "t-1", "task/500"); err != nil {
			b.Fatal(err)
		}
	}
}

func benchStore(b *testing.B) *bolt.Store {
	s, err := bolt.Open(b.Context(), bolt.Options{Path: filepath.Join(b.TempDir(), "store.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

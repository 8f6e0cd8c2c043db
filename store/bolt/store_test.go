package bolt_test

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
	"github.com/agentd-dev/agentd/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (store.Store, func() store.Store) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path)
		return s, func() store.Store {
			closeSound(t, s, path)
			s = reopen(t, path)
			t.Cleanup(func() { closeSound(t, s, path) })
			return s
		}
	})
}

// open opens a store which is closed and checked at the end of the test.
func open(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s := reopen(t, path)
	t.Cleanup(func() { closeSound(t, s, path) })
	return s
}

func reopen(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(t.Context(), bolt.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// closeSound closes a store and lets Check look at every page of the file.
func closeSound(t testing.TB, s *bolt.Store, path string) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if report := check(t, path); !report.OK() {
		t.Errorf("%s: %q", report, report.Problems)
	}
}

func check(t testing.TB, path string) bolt.Report {
	t.Helper()
	report, err := bolt.Check(context.Background(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

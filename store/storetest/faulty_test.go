package storetest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
	"github.com/agentd-dev/agentd/store/storetest"
)

func wrap(t *testing.T, p storetest.Plan) *storetest.Faulty {
	t.Helper()
	s, err := bolt.Open(t.Context(), bolt.Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	f := storetest.Wrap(s, p)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// commit appends the number of a commit to a log and gives the reason of the refusal, Unspecified for none.
func commit(f *storetest.Faulty, n int) errdefs.Reason {
	_, err := f.Commit(context.Background(), store.Batch{Part: "t-1", Ops: []store.Op{
		{Kind: store.Append, Name: "log", Value: []byte{byte(n)}},
	}})
	if err == nil {
		return errdefs.Unspecified
	}
	return errdefs.As(err).Reason
}

func landed(t *testing.T, f *storetest.Faulty) (got []int) {
	t.Helper()
	for e, err := range f.Read(context.Background(), "t-1", "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, int(e.Value[0]))
	}
	return got
}

func TestFaulty(t *testing.T) {
	const refused, unknown = errdefs.StoreStalled, errdefs.OutcomeUnknown
	for _, c := range []struct {
		plan    storetest.Plan
		answers []errdefs.Reason
		landed  []int
	}{
		{storetest.Plan{}, []errdefs.Reason{0, 0, 0}, []int{1, 2, 3}},
		{storetest.Plan{From: 2, Count: 1, Mode: storetest.Refused}, []errdefs.Reason{0, refused, 0}, []int{1, 3}},
		{storetest.Plan{From: 2, Count: 1, Mode: storetest.Landed}, []errdefs.Reason{0, unknown, 0}, []int{1, 2, 3}},
		{storetest.Plan{From: 1, Count: 2, Mode: storetest.Lost}, []errdefs.Reason{unknown, unknown, 0}, []int{3}},
		{storetest.Plan{From: 2, Mode: storetest.Refused}, []errdefs.Reason{0, refused, refused}, []int{1}},
	} {
		t.Run(fmt.Sprint(c.plan), func(t *testing.T) {
			f, failed := wrap(t, c.plan), 0
			for i, want := range c.answers {
				if got := commit(f, i+1); got != want {
					t.Errorf("commit %d: %v, want %v", i+1, got, want)
				}
				if want != 0 {
					failed++
				}
			}
			if got := landed(t, f); !slices.Equal(got, c.landed) {
				t.Errorf("%v have landed, want %v", got, c.landed)
			}
			if f.Commits() != len(c.answers) || f.Failed() != failed {
				t.Errorf("%d of %d commits failed, want %d of %d", f.Failed(), f.Commits(), failed, len(c.answers))
			}
		})
	}
}

func TestFaultyStall(t *testing.T) {
	f := wrap(t, storetest.Plan{})
	var got []errdefs.Reason
	got = append(got, commit(f, 1))
	f.Stall()
	got = append(got, commit(f, 2), commit(f, 3))
	f.Heal()
	got = append(got, commit(f, 4))
	if want := []errdefs.Reason{0, errdefs.StoreStalled, errdefs.StoreStalled, 0}; !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	if got := landed(t, f); !slices.Equal(got, []int{1, 4}) {
		t.Errorf("%v have landed", got)
	}
}

// Of commits that are under way at once exactly as many fail as the plan says.
func TestFaultyConcurrent(t *testing.T) {
	f := wrap(t, storetest.Plan{From: 10, Count: 5, Mode: storetest.Lost})
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() { commit(f, i) })
	}
	all.Wait()
	if f.Commits() != 30 || f.Failed() != 5 || len(landed(t, f)) != 25 {
		t.Errorf("%d of %d failed, %d landed", f.Failed(), f.Commits(), len(landed(t, f)))
	}
}

package store_test

import (
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

func TestBatchValidate(t *testing.T) {
	put := func(name string, size int) store.Op {
		return store.Op{Kind: store.Put, Name: name, Value: make([]byte, size)}
	}
	ops := func(n int) []store.Op {
		many := make([]store.Op, n)
		for i := range many {
			many[i] = store.Op{Kind: store.Append, Name: "log"}
		}
		return many
	}
	big := func(n int) []store.Op {
		many := ops(n)
		for i := range many {
			many[i].Value = make([]byte, store.MaxValue)
		}
		return many
	}
	long := strings.Repeat("n", store.MaxNameBytes)
	const p = "t-1"
	for name, c := range map[string]struct {
		batch store.Batch
		want  errdefs.Reason
	}{
		"empty":             {store.Batch{Part: p}, 0},
		"longest name":      {store.Batch{Part: p, Ops: []store.Op{put(long, 0)}}, 0},
		"biggest value":     {store.Batch{Part: p, Ops: []store.Op{put("a/b_C-9", store.MaxValue)}}, 0},
		"most ops":          {store.Batch{Part: p, Ops: ops(store.MaxOps)}, 0},
		"most guards":       {store.Batch{Part: p, Guards: guards(store.MaxGuards)}, 0},
		"biggest batch":     {store.Batch{Part: p, Ops: big(store.MaxBatch / store.MaxValue)}, 0},
		"same log twice":    {store.Batch{Part: p, Ops: ops(2)}, 0},
		"log like record":   {store.Batch{Part: p, Ops: append(ops(1), put("log", 1))}, 0},
		"name too long":     {store.Batch{Part: p, Ops: []store.Op{put(long+"n", 0)}}, errdefs.TooLarge},
		"value too big":     {store.Batch{Part: p, Ops: []store.Op{put("a", store.MaxValue+1)}}, errdefs.TooLarge},
		"too many ops":      {store.Batch{Part: p, Ops: ops(store.MaxOps + 1)}, errdefs.TooLarge},
		"too many guards":   {store.Batch{Part: p, Guards: guards(store.MaxGuards + 1)}, errdefs.TooLarge},
		"batch too big":     {store.Batch{Part: p, Ops: big(store.MaxBatch/store.MaxValue + 1)}, errdefs.TooLarge},
		"no partition":      {store.Batch{}, errdefs.BadArgument},
		"partition / ":      {store.Batch{Part: "a/b"}, errdefs.BadArgument},
		"no kind":           {store.Batch{Part: p, Ops: []store.Op{{Name: "a"}}}, errdefs.BadArgument},
		"unknown kind":      {store.Batch{Part: p, Ops: []store.Op{{Kind: store.Add + 1, Name: "a"}}}, errdefs.BadArgument},
		"record twice":      {store.Batch{Part: p, Ops: []store.Op{put("a", 1), {Kind: store.Delete, Name: "a"}}}, errdefs.BadArgument},
		"delete with value": {store.Batch{Part: p, Ops: []store.Op{{Kind: store.Delete, Name: "a", Value: []byte{1}}}}, errdefs.BadArgument},
		"add no vector":     {store.Batch{Part: p, Ops: []store.Op{{Kind: store.Add, Name: "a", Value: []byte{0x80}}}}, errdefs.BadArgument},
		"bad guard":         {store.Batch{Part: p, Guards: []store.Guard{{Key: "a//b"}}}, errdefs.BadArgument},
		"fence no key":      {store.Batch{Part: p, Fence: store.Guard{Rev: 1}}, errdefs.BadArgument},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.batch.Validate()
			if c.want == 0 && err != nil || c.want != 0 && !errdefs.Is(err, c.want) {
				t.Errorf("Validate() = %v, want reason %v", err, c.want)
			}
		})
	}
}

func guards(n int) []store.Guard {
	many := make([]store.Guard, n)
	for i := range many {
		many[i].Key = "k"
	}
	return many
}

func TestValidateName(t *testing.T) {
	for _, name := range []string{"a", "A/b/9", "_-", "live/sub-1"} {
		if err := store.ValidateName(name); err != nil {
			t.Errorf("ValidateName(%q) = %v", name, err)
		}
	}
	for _, name := range []string{"", "/", "a/", "/a", "a//b", "a.b", "a b", "a\x00b", "é"} {
		if err := store.ValidateName(name); !errdefs.Is(err, errdefs.BadArgument) {
			t.Errorf("ValidateName(%q) = %v, want BadArgument", name, err)
		}
	}
}

package store_test

import (
	"encoding/hex"
	"math"
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// The bytes of vectors lie in files: a change of them needs a migration.
func TestVectorGolden(t *testing.T) {
	for _, c := range []struct {
		vector []int64
		want   string
	}{
		{nil, ""},
		{[]int64{0}, "00"},
		{[]int64{1, -1, 64}, "02018001"},
		{[]int64{math.MaxInt64, math.MinInt64}, "feffffffffffffffff01ffffffffffffffffff01"},
	} {
		if got := hex.EncodeToString(store.EncodeVector(c.vector)); got != c.want {
			t.Errorf("EncodeVector(%v) = %s, want %s", c.vector, got, c.want)
		}
	}
}

func TestAddVectors(t *testing.T) {
	for _, c := range []struct{ a, b, want []int64 }{
		{nil, nil, nil},
		{nil, []int64{1, 2}, []int64{1, 2}},
		{[]int64{1, 2, 3}, []int64{10}, []int64{11, 2, 3}},
		{[]int64{10}, []int64{1, 2, 3}, []int64{11, 2, 3}},
		{[]int64{5}, []int64{-5}, []int64{0}},
	} {
		sum, err := store.AddVectors(store.EncodeVector(c.a), store.EncodeVector(c.b))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := store.DecodeVector(sum); !slices.Equal(got, c.want) {
			t.Errorf("%v + %v = %v, want %v", c.a, c.b, got, c.want)
		}
	}
	for _, bad := range [][]byte{{0x80}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}} {
		if _, err := store.AddVectors(nil, bad); !errdefs.Is(err, errdefs.RecordCorrupt) {
			t.Errorf("AddVectors(nil, %x) = %v, want RecordCorrupt", bad, err)
		}
	}
}

// FuzzVector: what decodes survives another round trip, and adding nothing changes nothing.
func FuzzVector(f *testing.F) {
	f.Add([]byte{})
	f.Add(store.EncodeVector([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := store.DecodeVector(b)
		if err != nil {
			return
		}
		again, err := store.DecodeVector(store.EncodeVector(v))
		if err != nil || !slices.Equal(v, again) {
			t.Fatalf("%v came back as %v, %v", v, again, err)
		}
		sum, err := store.AddVectors(b, nil)
		if err != nil || !slices.Equal(sum, store.EncodeVector(v)) {
			t.Fatalf("%v + nothing = %x, %v", v, sum, err)
		}
	})
}

package store

import (
	"encoding/binary"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// EncodeVector is the value of an Add and of the record that it makes: zig-zag varints.
func EncodeVector(v []int64) []byte {
	var b []byte
	for _, n := range v {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// DecodeVector reads what EncodeVector wrote.
func DecodeVector(b []byte) ([]int64, error) {
	var v []int64
	for len(b) > 0 {
		n, size := binary.Varint(b)
		if size <= 0 {
			return nil, errdefs.New(errdefs.DataLoss, errdefs.RecordCorrupt, "", "store: not a vector")
		}
		v, b = append(v, n), b[size:]
	}
	return v, nil
}

// AddVectors sums two encoded vectors; the shorter one counts as filled up with zeros.
func AddVectors(a, b []byte) ([]byte, error) {
	x, err := DecodeVector(a)
	if err != nil {
		return nil, err
	}
	y, err := DecodeVector(b)
	if err != nil {
		return nil, err
	}
	if len(x) < len(y) {
		x, y = y, x
	}
	for i, n := range y {
		x[i] += n
	}
	return EncodeVector(x), nil
}

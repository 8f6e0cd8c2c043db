package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
)

// place is how far a watch has come. It is as small for thousands of teams as for one.
type place struct {
	team    uint64       // number of the team that is watched; 0: all
	after   journal.Tick // all teams have been read up to here
	upTo    journal.Tick // the round that is under way goes up to here; the same as after: none is
	reading uint64       // number of the team that the round has come to; those before it are at upTo
	pos     journal.Rev  // in that team's feed: what the round sent last; 0: nothing
	life    uint64       // of the daemon in which all up to upTo was settled
}

// A cursor is a version, then a seal, then the numbers of a place.
const (
	placeVersion = 1
	sealSize     = 8
	maxCursor    = 128 // bytes of a cursor; longer ones are none of ours
)

// seal tells the cursors of this store from all others.
func seal(storeID string, numbers []byte) []byte {
	sum := sha256.Sum256(append([]byte(storeID+"\x00"), numbers...))
	return sum[:sealSize]
}

// String is opaque to clients, and good for one store.
func (p place) String(storeID string) string {
	var numbers []byte
	for _, n := range []uint64{p.team, uint64(p.after), uint64(p.upTo), p.reading, uint64(p.pos), p.life} {
		numbers = binary.AppendUvarint(numbers, n)
	}
	raw := append([]byte{placeVersion}, seal(storeID, numbers)...)
	return base64.RawURLEncoding.EncodeToString(append(raw, numbers...))
}

// parsePlace reads a cursor; ours is false for one of another store. BadArgument for what is no cursor at all.
func parsePlace(cursor, storeID string) (p place, ours bool, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(cursor) > maxCursor || len(raw) <= 1+sealSize || raw[0] != placeVersion {
		return p, false, errdefs.BadField("cursor", "no watch gave this one; take it from an item of a watch, or leave it out")
	}
	sealed, numbers := raw[1:1+sealSize], raw[1+sealSize:]
	if !bytes.Equal(sealed, seal(storeID, numbers)) {
		return p, false, nil
	}
	var n [6]uint64
	for i := range n {
		size := 0
		n[i], size = binary.Uvarint(numbers)
		numbers = numbers[max(size, 0):] // never short: we made it
	}
	return place{n[0], journal.Tick(n[1]), journal.Tick(n[2]), n[3], journal.Rev(n[4]), n[5]}, true, nil
}

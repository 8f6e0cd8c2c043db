package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Probe tells whether a file can be opened: it reads its metas, its freelist and its top pages. A missing file is
// fine. Damage, an empty file too, is DataLoss, a newer format SchemaTooNew, a file that someone writes AlreadyRunning. Probe does not
// go through bbolt, so that nothing it meets can end the process; it never writes.
func Probe(ctx context.Context, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	im, err := openImage(path)
	if err != nil {
		return err
	}
	defer im.close()
	v := im.format(ctx)
	if v > formatVersion {
		return tooNew(path, v)
	}
	if err := errors.Join(im.checkHead(), im.checkTops(ctx), checkFormat(v)); err != nil {
		return dataLoss(path, err, "the store %s is damaged", path)
	}
	return nil
}

func checkFormat(version uint64) error {
	if version == 0 {
		return errors.New("format: there is no version, or it is damaged")
	}
	return nil
}

// format is the version of the layout, 0 when it cannot be read.
func (im *image) format(ctx context.Context) (version uint64) {
	if len(im.metas) == 0 {
		return 0
	}
	w := newWalk(im, func(error) {})
	for _, t := range w.trees(ctx, im.metas[0]) {
		if t.name != treeMeta {
			continue
		}
		w.tree(ctx, t, func(e element) {
			if it, v := decode(treeMeta, e.key, e.value); v == valid && string(e.key) == formatKey && len(it.value) == 8 {
				version = binary.BigEndian.Uint64(it.value)
			}
		})
	}
	return version
}

// checkHead looks at what is not part of a tree: metas, length and freelist.
func (im *image) checkHead() error {
	if len(im.metas) == 0 {
		return errors.New("metas: none of the two is valid")
	}
	m := im.metas[0]
	if int64(m.pages) > im.size/im.pageSize {
		return fmt.Errorf("length: cut off, %d pages of %d", im.size/im.pageSize, m.pages)
	}
	_, err := im.free(m)
	return err
}

// checkTops looks at the root and the top page of each tree.
func (im *image) checkTops(ctx context.Context) error {
	if len(im.metas) == 0 {
		return nil // checkHead tells
	}
	var problems []error
	w := newWalk(im, func(err error) { problems = append(problems, err) })
	trees := w.trees(ctx, im.metas[0])
	for _, t := range trees {
		if t.root == 0 {
			w.tree(ctx, t, func(element) {})
			continue
		}
		p, err := im.page(t.root)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		w.elements(p, func(element) {})
	}
	return errors.Join(append(problems, complete(trees))...)
}

// complete tells whether all trees of a store are there.
func complete(trees []tree) error {
	seen := make(map[string]bool)
	for _, t := range trees {
		seen[t.name] = true
	}
	for _, name := range []string{treeMeta, treeRecords, treeLogs, treeQuarantine} {
		if !seen[name] {
			return fmt.Errorf("bucket %q: missing", name)
		}
	}
	return nil
}

// Report is what Check found in a file.
type Report struct {
	Path        string
	Bytes       int64    // size of the file
	Records     int      // records with a right checksum
	Entries     int      // entries of logs with a right checksum
	Corrupt     int      // values with a wrong checksum, not in quarantine yet; they are among Problems
	Quarantined int      // values in quarantine
	Problems    []string // what is wrong, in the order found; the first 1000
	More        int      // problems beyond those
}

// maxProblems bounds the problems that a report holds.
const maxProblems = 1000

// OK tells whether nothing is wrong. Values in quarantine are no problem any more.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// String is the report in one line.
func (r Report) String() string {
	state := "sound"
	if !r.OK() {
		state = fmt.Sprintf("DAMAGED (%d problems)", len(r.Problems)+r.More)
	}
	return fmt.Sprintf("%s: %s, %d bytes, %d records, %d log entries, %d corrupt values, %d in quarantine",
		r.Path, state, r.Bytes, r.Records, r.Entries, r.Corrupt, r.Quarantined)
}

// Check walks through a whole file that nobody has open: every page and every checksum, and bbolt's own check of
// consistency when its pages are sound enough for that. It writes each problem to w as it finds it, one a line. The
// error tells that the walk could not be done; damage is in the report.
func Check(ctx context.Context, path string, w io.Writer) (Report, error) {
	im, err := openImage(path)
	if err != nil {
		return Report{}, err
	}
	defer im.close()
	r := Report{Path: path, Bytes: im.size}
	problem := func(err error) {
		line := strings.ReplaceAll(err.Error(), "\n", "; ")
		if len(r.Problems) < maxProblems {
			r.Problems = append(r.Problems, line)
		} else {
			r.More++
		}
		_, _ = fmt.Fprintln(w, line) // the report has it
	}
	v := im.format(ctx)
	if v > formatVersion {
		return r, tooNew(path, v)
	}
	for _, err := range []error{im.checkHead(), checkFormat(v)} {
		if err != nil {
			problem(err)
		}
	}
	if len(im.metas) > 0 {
		r.count(ctx, newWalk(im, problem), im.metas[0])
	}
	if len(r.Problems) == r.Corrupt && ctx.Err() == nil {
		if err := checkConsistency(path, problem); err != nil {
			return r, err
		}
	}
	if ctx.Err() != nil {
		return r, errdefs.As(ctx.Err())
	}
	return r, nil
}

// count walks through all trees.
func (r *Report) count(ctx context.Context, w *walk, m meta) {
	trees := w.trees(ctx, m)
	if err := complete(trees); err != nil {
		w.problem(err)
	}
	given, highest := uint64(0), uint64(0)
	for _, t := range trees {
		if t.name == treeRecords {
			given = t.sequence
		}
		w.tree(ctx, t, func(e element) {
			switch t.name {
			case treeRecords, treeLogs:
				highest = max(highest, r.value(t.name, e, w.problem))
			case treeQuarantine:
				r.Quarantined++
			}
		})
	}
	if given < highest || given > maxPos {
		w.problem(fmt.Errorf("sequence: %d, but there is position %d", given, highest))
	}
}

// value counts a record or an entry and gives its position, 0 when that is not known.
func (r *Report) value(tree string, e element, problem func(error)) uint64 {
	it, v := decode(tree, e.key, e.value)
	switch {
	case v == corrupt:
		r.Corrupt++
		problem(fmt.Errorf("%s %q: wrong checksum", tree, e.key))
	case v == valid && tree == treeRecords:
		r.Records++
	case v == valid:
		r.Entries++
	}
	return uint64(it.pos)
}

// checkConsistency lets bbolt check a file whose pages are known to lie within it.
func checkConsistency(path string, problem func(error)) error {
	db, err := openFile(path, true)
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			problem(err)
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// tooNew refuses what a later agentd wrote.
func tooNew(path string, format uint64) error {
	return errdefs.New(errdefs.FailedPrecondition, errdefs.SchemaTooNew, path,
		"the store %s has format %d, this agentd knows %d: it was written by a newer agentd", path, format, formatVersion)
}

// isLogKey tells whether a key has the form of a log entry's: PARTITION 0 NAME 0 pos.
func isLogKey(key []byte) bool {
	return len(key) > posSize+1 && key[len(key)-posSize-1] == 0 && bytes.Count(key[:len(key)-posSize], []byte{0}) == 2
}

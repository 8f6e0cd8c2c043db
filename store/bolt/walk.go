package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
)

// tree is a top-level bucket in an image. A small bucket lies within the page of its parent.
type tree struct {
	name     string
	root     uint64 // 0: inline
	sequence uint64
	inline   []byte
}

// walk goes through pages of an image and notes what is wrong.
type walk struct {
	im      *image
	reached map[uint64]bool // pages, those of overflow included
	problem func(error)
}

func newWalk(im *image, problem func(error)) *walk {
	return &walk{im: im, reached: make(map[uint64]bool), problem: problem}
}

// trees lists the top-level buckets that a meta leads to.
func (w *walk) trees(ctx context.Context, m meta) []tree {
	var found []tree
	w.page(ctx, m.root, 0, func(e element) {
		if !e.bucket || len(e.value) < bucketSize {
			w.problem(fmt.Errorf("bucket %q: not a bucket", e.key))
			return
		}
		ne := binary.NativeEndian
		found = append(found, tree{
			string(e.key), ne.Uint64(e.value), ne.Uint64(e.value[8:]), e.value[bucketSize:],
		})
	})
	return found
}

// tree visits all entries of a tree that can be reached.
func (w *walk) tree(ctx context.Context, t tree, visit func(element)) {
	entry := func(e element) {
		if e.bucket {
			w.problem(fmt.Errorf("bucket %q: there is a bucket in it", t.name))
			return
		}
		visit(e)
	}
	if t.root != 0 {
		w.page(ctx, t.root, 0, entry)
		return
	}
	p, ok := inlinePage(t.inline)
	if !ok {
		w.problem(fmt.Errorf("bucket %q: damaged", t.name))
		return
	}
	w.elements(p, entry)
}

// inlinePage is the page of a small bucket, which lies behind its header; false when there is none.
func inlinePage(b []byte) (page, bool) {
	if len(b) < pageHeader {
		return page{}, false
	}
	ne := binary.NativeEndian
	p := page{flags: ne.Uint16(b[8:]), count: int(ne.Uint16(b[10:])), body: b[pageHeader:]}
	return p, p.flags == flagLeaf
}

// page visits the entries below a page. What cannot be read is noted and left out.
func (w *walk) page(ctx context.Context, id uint64, depth int, visit func(element)) {
	if ctx.Err() != nil {
		return
	}
	p, err := w.im.page(id)
	switch {
	case err != nil:
		w.problem(err)
		return
	case depth > maxDepth:
		w.problem(fmt.Errorf("page %d: the tree is too deep", id))
		return
	case !w.reach(p):
		w.problem(fmt.Errorf("page %d: reached twice", id))
		return
	}
	switch p.flags {
	case flagLeaf:
		w.elements(p, visit)
	case flagBranch:
		w.elements(p, func(e element) { w.page(ctx, e.child, depth+1, visit) })
	default:
		w.problem(fmt.Errorf("page %d: a freelist within a tree", id))
	}
}

// elements visits those elements of a page that lie within it.
func (w *walk) elements(p page, visit func(element)) {
	for i := range p.count {
		if e, ok := p.element(i); ok {
			visit(e)
		} else {
			w.problem(fmt.Errorf("page %d: element %d lies outside of it", p.id, i))
		}
	}
}

// reach marks a page; false when it or its overflow was reached before.
func (w *walk) reach(p page) bool {
	for id := p.id; id < p.id+p.span; id++ {
		if w.reached[id] {
			return false
		}
	}
	for id := p.id; id < p.id+p.span; id++ {
		w.reached[id] = true
	}
	return true
}

// loose visits the entries of the leaves that no tree has reached. Stale pages are among them.
func (w *walk) loose(ctx context.Context, visit func(element)) {
	for id := uint64(2); id < uint64(w.im.size/w.im.pageSize) && ctx.Err() == nil; id++ {
		if w.reached[id] {
			continue
		}
		p, err := w.im.place(id)
		if err != nil || p.flags != flagLeaf {
			continue
		}
		w.elements(p, func(e element) { w.looseElement(e, visit) })
	}
}

// looseElement visits an entry, or those of a small bucket that lies within the page.
func (w *walk) looseElement(e element, visit func(element)) {
	if !e.bucket {
		visit(e)
		return
	}
	if len(e.value) < bucketSize || binary.NativeEndian.Uint64(e.value) != 0 {
		return // its pages are found by themselves
	}
	if p, ok := inlinePage(e.value[bucketSize:]); ok {
		w.elements(p, visit)
	}
}

package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// What bbolt writes into its pages, in the byte order of the machine.
const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	bucketSize  = 16
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)
	manyFree    = 0xFFFF // the count of a freelist whose real one is its first number

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10

	maxPageBytes = 64 << 20 // of a page with what overflows; a larger one is damage
	maxDepth     = 64
)

// image is a bbolt file read page by page, without a map and without trust: what is wrong is an error, never a fault.
type image struct {
	f        *os.File
	size     int64
	pageSize int64
	metas    []meta // the valid ones, newest first
}

// meta is what one of the two meta pages says.
type meta struct{ root, freelist, pages, tx uint64 }

// page is a page that lies within the file; its elements need not lie within it.
type page struct {
	id    uint64
	flags uint16
	count int
	body  []byte // after the header, overflow included
	span  uint64 // pages with overflow
}

// openImage opens and share-locks a file: AlreadyRunning when someone writes it.
func openImage(path string) (*image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, stalled(err)
	}
	info, err := f.Stat()
	if err == nil {
		err = tryLock(f, unix.LOCK_SH)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(inUse(path), f.Close())
	case err != nil:
		return nil, errors.Join(stalled(err), f.Close())
	}
	im := &image{f: f, size: info.Size(), pageSize: int64(os.Getpagesize())}
	im.findMetas()
	return im, nil
}

func (im *image) close() { _ = im.f.Close() } // it was only read

// findMetas reads both metas. The second lies at a page size that only the first one, or a search, tells.
func (im *image) findMetas() {
	for shift := -1; shift <= 14; shift++ {
		at := int64(0)
		if shift >= 0 {
			at = 1024 << shift
		}
		m, pageSize, ok := im.metaAt(at)
		if !ok || at != 0 && at != pageSize {
			continue
		}
		im.pageSize = pageSize
		im.metas = append(im.metas, m)
	}
	if len(im.metas) == 2 && im.metas[1].tx > im.metas[0].tx {
		im.metas[0], im.metas[1] = im.metas[1], im.metas[0]
	}
}

func (im *image) metaAt(at int64) (m meta, pageSize int64, ok bool) {
	buf := make([]byte, pageHeader+metaSize)
	if _, err := im.f.ReadAt(buf, at); err != nil {
		return m, 0, false
	}
	b, ne := buf[pageHeader:], binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8]) // a hash never fails
	pageSize = int64(ne.Uint32(b[8:]))
	if ne.Uint32(b) != boltMagic || ne.Uint32(b[4:]) != boltVersion || ne.Uint64(b[metaSize-8:]) != sum.Sum64() ||
		pageSize < 1024 || pageSize > 1024<<14 {
		return m, 0, false
	}
	return meta{root: ne.Uint64(b[16:]), freelist: ne.Uint64(b[32:]), pages: ne.Uint64(b[40:]), tx: ne.Uint64(b[48:])},
		pageSize, true
}

// page reads a page and checks that it is the one that it says.
func (im *image) page(id uint64) (page, error) {
	p, err := im.place(id)
	if err == nil && p.id != id {
		err = fmt.Errorf("page %d: says that it is page %d", id, p.id)
	}
	return p, err
}

// place reads what lies in the place of a page, whichever it is.
func (im *image) place(id uint64) (page, error) {
	head := make([]byte, pageHeader)
	if id < 2 || id >= uint64(im.size/im.pageSize)+1 {
		return page{}, fmt.Errorf("page %d: outside of the file", id)
	}
	at := int64(id) * im.pageSize
	if _, err := im.f.ReadAt(head, at); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	ne := binary.NativeEndian
	p := page{id: ne.Uint64(head), flags: ne.Uint16(head[8:]), count: int(ne.Uint16(head[10:])), span: uint64(ne.Uint32(head[12:])) + 1}
	length := int64(p.span) * im.pageSize
	if length > maxPageBytes || at+length > im.size {
		return page{}, fmt.Errorf("page %d: overflows the file", id)
	}
	p.body = make([]byte, length-pageHeader)
	if _, err := im.f.ReadAt(p.body, at+pageHeader); err != nil && !errors.Is(err, io.EOF) {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	if p.flags != flagLeaf && p.flags != flagBranch && p.flags != flagFreelist {
		return page{}, fmt.Errorf("page %d: unknown kind %#x", id, p.flags)
	}
	return p, nil
}

// element is an entry of a leaf (key, value, bucket or not) or of a branch (key, child).
type element struct {
	key, value []byte
	bucket     bool
	child      uint64
}

// element reads the i-th element; not ok when it does not lie within the page.
func (p page) element(i int) (e element, ok bool) {
	ne, at := binary.NativeEndian, i*elementSize
	if at+elementSize > len(p.body) {
		return e, false
	}
	b := p.body[at:]
	if p.flags == flagBranch {
		start, size := int64(ne.Uint32(b)), int64(ne.Uint32(b[4:]))
		if start+size > int64(len(b)) {
			return e, false
		}
		return element{key: b[start : start+size], child: ne.Uint64(b[8:])}, true
	}
	start, ksize, vsize := int64(ne.Uint32(b[4:])), int64(ne.Uint32(b[8:])), int64(ne.Uint32(b[12:]))
	if start+ksize+vsize > int64(len(b)) {
		return e, false
	}
	middle, end := start+ksize, start+ksize+vsize
	return element{key: b[start:middle], value: b[middle:end], bucket: ne.Uint32(b)&1 != 0}, true
}

// free gives the pages that the freelist names.
func (im *image) free(m meta) ([]uint64, error) {
	if m.freelist == noFreelist {
		return nil, errors.New("there is no freelist")
	}
	p, err := im.page(m.freelist)
	if err != nil {
		return nil, fmt.Errorf("freelist: %w", err)
	}
	if p.flags != flagFreelist {
		return nil, fmt.Errorf("freelist: page %d is none", p.id)
	}
	ne, count, b := binary.NativeEndian, uint64(p.count), p.body
	if count == manyFree {
		count, b = ne.Uint64(b), b[8:]
	}
	if count > uint64(len(b)/8) {
		return nil, fmt.Errorf("freelist: names %d pages, more than it holds", count)
	}
	ids := make([]uint64, count)
	for i := range ids {
		if ids[i] = ne.Uint64(b[8*i:]); ids[i] < 2 || ids[i] >= m.pages {
			return nil, fmt.Errorf("freelist: page %d lies outside of the file", ids[i])
		}
	}
	return ids, nil
}

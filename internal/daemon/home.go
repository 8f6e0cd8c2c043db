package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

// Names in the state directory.
const (
	storeFile   = "agentd.db"
	openingFile = "agentd.opening" // exists while a daemon opens and recovers the store
	tokenFile   = "rest.token"
)

// StorePath is where the store lies in a state directory.
func StorePath(stateDir string) string { return filepath.Join(stateDir, storeFile) }

// home is the state directory, held by a kernel lock (D9), with the open store.
type home struct {
	dir      string
	lock     *bolt.FileLock
	file     *bolt.Store
	store    store.Store // file, possibly wrapped
	salvaged string      // where a damaged file was set aside at this start
}

// openHome takes the state directory and opens the store, salvaging what can be read of a damaged one (D7).
func openHome(ctx context.Context, o Options) (*home, error) {
	dir := o.Config.StateDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errdefs.New(errdefs.PermissionDenied, errdefs.Denied, dir, "state directory %s can't be made: %v", dir, err)
	}
	lock, err := bolt.Lock(dir)
	if err != nil {
		return nil, err
	}
	h := &home{dir: dir, lock: lock}
	if err := h.open(ctx, o); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return h, nil
}

func (h *home) open(ctx context.Context, o Options) error {
	path, marker := StorePath(h.dir), filepath.Join(h.dir, openingFile)
	err := h.examine(ctx, path, marker, o.Log)
	if err != nil {
		return err
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return errdefs.New(errdefs.Unavailable, errdefs.StoreStalled, marker, "the state directory can't be written: %v", err)
	}
	h.file, err = bolt.Open(ctx, bolt.Options{Path: path, Log: o.Log})
	if err != nil && errdefs.KindOf(err) == errdefs.DataLoss {
		if err = h.salvage(ctx, path, o.Log); err == nil {
			h.file, err = bolt.Open(ctx, bolt.Options{Path: path, Log: o.Log})
		}
	}
	if err != nil {
		return err
	}
	h.store = h.file
	if o.Wrap != nil {
		h.store = o.Wrap(h.file)
	}
	return nil
}

// examine walks the whole file when the start before died in the store; opening looks at its head in any case.
func (h *home) examine(ctx context.Context, path, marker string, log *slog.Logger) error {
	if !exists(marker) || !exists(path) {
		return nil // the start before got through, or there is nothing yet
	}
	log.Warn("the start before this one did not get through; the store is checked", "path", path)
	report, err := bolt.Check(ctx, path, io.Discard)
	if err != nil {
		return err
	}
	if len(report.Problems) == report.Corrupt {
		return nil // single values at most: these go to quarantine when they are read
	}
	return h.salvage(ctx, path, log)
}

// exists tells whether there is a file with something to look at.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (h *home) salvage(ctx context.Context, path string, log *slog.Logger) error {
	log.Error("the store is damaged; what can be read is copied into a new one", "path", path)
	out, err := bolt.Salvage(ctx, path)
	if err != nil {
		return err
	}
	h.salvaged = out.SetAside
	log.Error("the store was salvaged", "outcome", out.String())
	return nil
}

// opened says that the start got through the store.
func (h *home) opened() error {
	err := os.Remove(filepath.Join(h.dir, openingFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// close closes the store. One that met a bad page leaves a mark, so that the next start walks through it.
func (h *home) close() error {
	var err error
	if h.file.Damaged() != nil {
		err = os.WriteFile(filepath.Join(h.dir, openingFile), nil, 0o600)
	}
	return errors.Join(err, h.store.Close(), h.lock.Unlock())
}

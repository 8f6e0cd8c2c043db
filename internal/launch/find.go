package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Binary finds agentd: beside this program, then in PATH, then by building the sources that this program was built
// from. Under `go run` the sources go before PATH, where an older agentd may lie. A build is told on progress; it goes
// into the directory, or into this user's cache when that is empty.
func Binary(ctx context.Context, dir string, progress io.Writer) (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), "agentd")
			if _, err := exec.LookPath(beside); err == nil {
				return beside, nil
			}
		}
	}
	source, hasSource := sourceDir()
	if hasSource && underGoRun() {
		return build(ctx, source, dir, progress)
	}
	if path, err := exec.LookPath("agentd"); err == nil {
		return filepath.Abs(path)
	}
	if hasSource {
		return build(ctx, source, dir, progress)
	}
	return "", errdefs.New(errdefs.NotFound, errdefs.Unspecified, "agentd",
		"agentd is neither beside agentctl nor in PATH; install it there, or start a daemon yourself and name it with --addr")
}

// underGoRun tells whether this program was built by `go run` or `go test`, which stamp no version.
func underGoRun() bool {
	built, ok := debug.ReadBuildInfo()
	return ok && (built.Main.Version == "(devel)" || built.Main.Version == "")
}

// sourceDir is the root of the checkout that this program was built from, if it is still there and builds with -trimpath
// did not hide it.
func sourceDir() (string, bool) {
	_, file, _, ok := goruntime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", false
	}
	root := filepath.Join(filepath.Dir(file), "..", "..")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module github.com/agentd-dev/agentd\n") {
		return "", false
	}
	return root, true
}

// build makes agentd from source, in the directory, or in a cache directory of that checkout; a second build takes what
// did not change from the go tool's own cache.
func build(ctx context.Context, source, dir string, progress io.Writer) (string, error) {
	if dir == "" {
		var err error
		if dir, err = buildDir(source); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(dir, "agentd")
	fmt.Fprintf(progress, "building agentd from %s\n", source)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/agentd")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Unspecified, source,
			"agentd can't be built from %s:\n%s", source, out)
	}
	return binary, nil
}

// buildDir is where builds of the checkout go: one directory for each checkout.
func buildDir(source string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), fmt.Sprintf("agentd-%d", os.Getuid()))
		if err := makeOwnDir(cache); err != nil { // what lies there is executed
			return "", err
		}
	}
	sum := sha256.Sum256([]byte(source))
	dir := filepath.Join(cache, "agentd", "build", hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Unspecified, dir, "the build's directory can't be made")
	}
	return dir, nil
}

package launch

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// maxLog is the size in bytes above which a log is set aside at the next start, as one generation `.1`.
	maxLog = 4 << 20
	// shownLog is how many lines of a failed start are shown, half from its beginning and half from its end: a panic
	// tells its cause first, an error comes last.
	shownLog = 20
)

// logPart is what one process wrote to its log.
type logPart struct {
	path string
	from int64 // offset of its first byte
}

// openLog opens a log to append to.
func openLog(path string) (logPart, *os.File, error) {
	part := logPart{path: path}
	if stat, err := os.Stat(path); err == nil {
		part.from = stat.Size()
	}
	if part.from > maxLog && os.Rename(path, path+".1") == nil {
		part.from = 0
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return part, log, err
}

// text is what people need of it, and where to find the rest. It is empty when the process wrote nothing.
func (p logPart) text() string {
	f, err := os.Open(p.path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, p.from, maxLog)) // what can be read
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if cut := len(lines) - shownLog; cut > 0 {
		end := lines[len(lines)-shownLog/2:]
		lines = append(append(lines[:shownLog/2:shownLog/2], fmt.Sprintf("… %d more lines", cut)), end...)
	}
	return strings.Join(lines, "\n") + "\n(log: " + p.path + ")"
}

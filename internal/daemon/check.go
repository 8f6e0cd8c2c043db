package daemon

import (
	"context"
	"errors"
	"io"

	"github.com/agentd-dev/agentd/store/bolt"
)

// CheckStore walks the store of a state directory and writes each problem to w. It is refused while a daemon holds the
// directory, naming its pid.
func CheckStore(ctx context.Context, stateDir string, w io.Writer) (report bolt.Report, err error) {
	lock, err := bolt.Lock(stateDir)
	if err != nil {
		return bolt.Report{}, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return bolt.Check(ctx, StorePath(stateDir), w)
}

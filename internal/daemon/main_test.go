package daemon_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/internal/daemon"
	"github.com/agentd-dev/agentd/runtime/sandbox"
)

// The test binary is the daemon too: so it needs no build, and it has the race detector when the test has it.
const (
	latchName  = "latch"
	daemonName = "daemon"
	clientName = "client"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case latchName:
			os.Exit(sandbox.Latch(os.Args[2:]))
		case daemonName:
			os.Exit(daemonMain(os.Args[2]))
		case clientName:
			os.Exit(clientMain(os.Args[2]))
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for the processes that it starts: with -race each would take a second to end
	os.Exit(m.Run())
}

// sized is the size of a long test: the full one, or with the race detector, which makes all several times as slow, a smaller one.
func sized(full, race int) int {
	if raceDetector {
		return race
	}
	return full
}

// settings are what a test tells its daemon.
type settings struct {
	StateDir, Socket, BaseURL, REST string
	MaxRunning                      int
}

func (s settings) config() config.Config {
	c := config.Config{
		StateDir: s.StateDir, Listen: []string{"unix://" + s.Socket}, REST: s.REST, Model: "scripted", BaseURL: s.BaseURL,
		ModelIdleTimeout: 30 * time.Second, MaxRunning: s.MaxRunning, MaxShells: 64, MaxDepth: 5, MaxItems: 8,
		MaxAtOnce: 4, Path: os.Getenv("PATH"), LogLevel: slog.LevelInfo,
	}
	return c
}

func daemonMain(arg string) int {
	var s settings
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		panic(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	collect := make(chan os.Signal, 1)
	signal.Notify(collect, syscall.SIGUSR1)
	go func() {
		for range collect {
			debug.FreeOSMemory()
		}
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := daemon.Run(ctx, daemon.Options{
		Config: s.config(), Version: "test", Latch: []string{"/proc/self/exe", latchName}, Log: log,
	})
	if err != nil {
		log.Error("the daemon failed", "error", err)
		return 1
	}
	return 0
}

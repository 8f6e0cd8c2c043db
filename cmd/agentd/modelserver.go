package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/lifecycle"
	"github.com/agentd-dev/agentd/runtime/model/script"
)

// headerTimeout bounds how long a client of the model server may take for its headers.
const headerTimeout = 10 * time.Second

func newModelServer() *cobra.Command {
	var file, address string
	cmd := &cobra.Command{
		Use: "model-server --script FILE", Short: "Serve a scripted model over HTTP, for tests and demos",
		Long: "model-server answers the OpenAI chat completions API from the rules of a YAML file, without a network or a\n" +
			"key. It refuses any history that the real API would refuse. docs/scripted-model.md describes the rules.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return errdefs.BadField("script", "name the file with the rules: --script FILE")
			}
			s, err := script.Load(file)
			if err != nil {
				return errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, file, "%v", err)
			}
			return serveModel(cmd, s, address)
		},
	}
	cmd.Flags().StringVar(&file, "script", "", "YAML `FILE` with the rules")
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "loopback `IP:PORT` to listen on; port 0 picks a free one")
	return cmd
}

// serveModel prints where it listens, so that a caller can wait for the line, and serves until ctx ends.
func serveModel(cmd *cobra.Command, s *script.Script, address string) error {
	listener, err := listenLoopback(cmd.Context(), address)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "listening on http://%s/v1\n", listener.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: script.NewServer(s), ReadHeaderTimeout: headerTimeout}
	return lifecycle.Run(cmd.Context(), slog.Default(),
		lifecycle.Part{Name: "model server", StopBudget: time.Second, Run: func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { _ = server.Close() })
			defer stop()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}})
}

func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return nil, errdefs.BadField("listen", "%q is no loopback address with a port, such as 127.0.0.1:0", address)
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

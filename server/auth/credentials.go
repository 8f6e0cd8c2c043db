package auth

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Credentials are those of the server's every listener: a unix socket tells who connects, an in-process connection
// (bufconn) nothing. Other connections are cut.
//
// A process that is refused gets its connection, and the refusal as the answer to each call: one that finds the
// connection closed would take the daemon for dead.
func (p *Policy) Credentials() credentials.TransportCredentials { return transport{p} }

// process is what is known of a connection over a unix socket.
type process struct {
	credentials.CommonAuthInfo
	uid     int
	refusal error // nil: it may call
}

// AuthType names the kind of connection.
func (process) AuthType() string { return "unix" }

// inProcess is what is known of an in-process connection: nothing.
type inProcess struct{ credentials.CommonAuthInfo }

// AuthType names the kind of connection.
func (inProcess) AuthType() string { return "in-process" }

// transport implements the handshake of a Policy.
type transport struct{ policy *Policy }

// ServerHandshake finds out who is at the other end.
func (t transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	// Neither kind of connection leaves the machine.
	local := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
	switch network := conn.LocalAddr().Network(); network {
	case "unix":
		uid, pid, err := peerOf(conn)
		if err != nil {
			return nil, nil, errdefs.Wrap(err, errdefs.Unauthenticated, errdefs.BadCredentials, network,
				"the socket does not tell who connects")
		}
		return conn, process{local, uid, t.policy.judge(uid, pid)}, nil
	case "bufconn":
		return conn, inProcess{local}, nil
	default:
		return nil, nil, errdefs.New(errdefs.Unauthenticated, errdefs.BadCredentials, network,
			"connections over %s are not served", network)
	}
}

// judge says why the process may not call; nil when it may.
func (p *Policy) judge(uid, pid int) error {
	switch {
	case uid != p.uid:
		return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, "uid "+strconv.Itoa(uid),
			"this daemon serves the user who runs it, uid %d, alone", p.uid)
	case p.refuse(pid):
		return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, "pid "+strconv.Itoa(pid),
			"the process belongs to a task of this daemon, or cannot be looked at: agents act through their tools alone")
	}
	return nil
}

// peerOf reads the uid and pid of the process that connected, as the kernel noted them then.
func peerOf(conn net.Conn) (uid, pid int, err error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0, 0, errors.New("not a socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) { cred, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, 0, err
	}
	if optErr != nil {
		return 0, 0, optErr
	}
	return int(cred.Uid), int(cred.Pid), nil
}

// ClientHandshake is refused: these are a server's credentials.
func (transport) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("auth: these are credentials of a server")
}

// Info describes the credentials to gRPC.
func (transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "local"}
}

// Clone gives the same credentials: they do not change.
func (t transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName has no meaning here.
func (transport) OverrideServerName(string) error { return nil }

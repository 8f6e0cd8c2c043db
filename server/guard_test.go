package server

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/server/auth"
)

// methods are all of the API.
func methods() (all []protoreflect.MethodDescriptor) {
	pkg := agentdv1.File_agentd_v1_task_proto.Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				all = append(all, service.Methods().Get(j))
			}
		}
		return true
	})
	return all
}

// call makes a call with an empty request, and gives its error.
func (h *house) call(conn *grpc.ClientConn, m protoreflect.MethodDescriptor) error {
	h.t.Helper()
	stream, err := conn.NewStream(h.ctx(), &grpc.StreamDesc{ServerStreams: true},
		"/"+string(m.Parent().FullName())+"/"+string(m.Name()))
	if err == nil {
		err = stream.SendMsg(dynamicpb.NewMessage(m.Input()))
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(dynamicpb.NewMessage(m.Output()))
	}
	return err
}

// Every method of the API is served, and none to processes of the daemon's own tasks. proves P8
func TestEveryMethodIsServedAndGuarded(t *testing.T) {
	open := newHouse(t, says("done"))
	guarded := newHouse(t, says("done"), func(c *Config) {
		c.Policy = auth.NewPolicy("", func(int) bool { return true })
	})
	openConn, guardedConn := open.dial(), guarded.dial()
	if len(methods()) < 10 {
		t.Fatalf("methods: %v", methods())
	}
	for _, m := range methods() {
		if err := open.call(openConn, m); status.Code(err) == codes.Unimplemented {
			t.Errorf("%s is not served", m.FullName())
		}
		if err := guarded.call(guardedConn, m); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", m.FullName(), err)
		}
	}
}

// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// baseService is the service that each plugin of Nomad has.
var baseService = grpc.ServiceDesc{
	ServiceName: "hashicorp.nomad.plugins.base.proto.BasePlugin", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("PluginInfo", (*driver).pluginInfo),
		unary("ConfigSchema", (*driver).configSchema),
		unary("SetConfig", (*driver).setConfig),
	},
}

// driverService is a task driver. Nomad calls further methods of drivers that create
// networks, which is no capability of this one.
var driverService = grpc.ServiceDesc{
	ServiceName: "hashicorp.nomad.plugins.drivers.proto.Driver", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("TaskConfigSchema", (*driver).taskConfigSchema),
		unary("Capabilities", (*driver).capabilities),
		unary("StartTask", (*driver).startTask),
		unary("RecoverTask", (*driver).recoverTask),
		unary("WaitTask", (*driver).waitTask),
		unary("StopTask", (*driver).stopTask),
		unary("DestroyTask", (*driver).destroyTask),
		unary("InspectTask", (*driver).inspectTask),
		unary("SignalTask", (*driver).signalTask),
		unary("ExecTask", (*driver).execTask),
	},
	Streams: []grpc.StreamDesc{
		streaming("Fingerprint", (*driver).streamFingerprint),
		streaming("TaskStats", (*driver).taskStats),
		streaming("TaskEvents", (*driver).taskEvents),
		{StreamName: "ExecTaskStreaming", ServerStreams: true, ClientStreams: true, Handler: execTaskStreaming},
	},
}

// unary is a method that answers with one message.
func unary[Request, Answer any](name string, call func(*driver, context.Context, *Request) (*Answer, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(d any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		request := new(Request)
		if err := decode(request); err != nil {
			return nil, err
		}
		return call(d.(*driver), ctx, request)
	}}
}

// streaming is a method that answers with messages until it returns.
func streaming[Request, Answer any](name string, call func(*driver, *Request, grpc.ServerStreamingServer[Answer]) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: func(d any, stream grpc.ServerStream) error {
		request := new(Request)
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		return call(d.(*driver), request, &grpc.GenericServerStream[Request, Answer]{ServerStream: stream})
	}}
}

// service is one of the driver's services as a go-plugin.Plugin.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	desc   *grpc.ServiceDesc
	driver *driver
}

// GRPCServer registers the service.
func (s service) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	server.RegisterService(s.desc, s.driver)
	return nil
}

// GRPCClient is not supported: this program is the server.
func (service) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this program serves the driver and has no client")
}

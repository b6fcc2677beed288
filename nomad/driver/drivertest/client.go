// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package drivertest calls a driver as Nomad does.
package drivertest

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/nomad/driver/proto"
)

const (
	base   = "/hashicorp.nomad.plugins.base.proto.BasePlugin/"
	driver = "/hashicorp.nomad.plugins.drivers.proto.Driver/"
)

// The methods of both services, on a connection.
var (
	PluginInfo       = unary[emptypb.Empty, proto.PluginInfoResponse](base + "PluginInfo")
	ConfigSchema     = unary[emptypb.Empty, proto.ConfigSchemaResponse](base + "ConfigSchema")
	SetConfig        = unary[proto.SetConfigRequest, emptypb.Empty](base + "SetConfig")
	TaskConfigSchema = unary[emptypb.Empty, proto.TaskConfigSchemaResponse](driver + "TaskConfigSchema")
	Capabilities     = unary[emptypb.Empty, proto.CapabilitiesResponse](driver + "Capabilities")
	StartTask        = unary[proto.StartTaskRequest, proto.StartTaskResponse](driver + "StartTask")
	RecoverTask      = unary[proto.RecoverTaskRequest, emptypb.Empty](driver + "RecoverTask")
	WaitTask         = unary[proto.WaitTaskRequest, proto.WaitTaskResponse](driver + "WaitTask")
	StopTask         = unary[proto.StopTaskRequest, emptypb.Empty](driver + "StopTask")
	DestroyTask      = unary[proto.DestroyTaskRequest, emptypb.Empty](driver + "DestroyTask")
	InspectTask      = unary[proto.InspectTaskRequest, proto.InspectTaskResponse](driver + "InspectTask")
	SignalTask       = unary[emptypb.Empty, emptypb.Empty](driver + "SignalTask")
	ExecTask         = unary[emptypb.Empty, emptypb.Empty](driver + "ExecTask")
	Fingerprint      = streaming[emptypb.Empty, proto.FingerprintResponse](driver + "Fingerprint")
	TaskStats        = streaming[proto.TaskStatsRequest, proto.TaskStatsResponse](driver + "TaskStats")
	TaskEvents       = streaming[emptypb.Empty, proto.DriverTaskEvent](driver + "TaskEvents")

	ExecTaskStreaming = bidirectional(driver + "ExecTaskStreaming")
)

// Method is a method of a service.
type Method struct {
	// Path is /SERVICE/NAME.
	Path string
	// Request and Answer are the messages. *emptypb.Empty: no field of it is read or sent.
	Request, Answer              reflect.Type
	ClientStreams, ServerStreams bool
}

// Methods are those of both services.
var Methods []Method

func add[Request, Answer any](path string, clientStreams, serverStreams bool) {
	Methods = append(Methods, Method{path, reflect.TypeFor[*Request](), reflect.TypeFor[*Answer](), clientStreams, serverStreams})
}

func unary[Request, Answer any](path string) func(context.Context, *grpc.ClientConn, *Request) (*Answer, error) {
	add[Request, Answer](path, false, false)
	return func(ctx context.Context, c *grpc.ClientConn, r *Request) (*Answer, error) {
		answer := new(Answer)
		return answer, c.Invoke(ctx, path, r, answer)
	}
}

func streaming[Request, Answer any](path string) func(context.Context, *grpc.ClientConn, *Request) (grpc.ServerStreamingClient[Answer], error) {
	add[Request, Answer](path, false, true)
	return func(ctx context.Context, c *grpc.ClientConn, r *Request) (grpc.ServerStreamingClient[Answer], error) {
		stream, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path)
		if err != nil {
			return nil, err
		}
		if err := stream.SendMsg(r); err != nil {
			return nil, err
		}
		return &grpc.GenericClientStream[Request, Answer]{ClientStream: stream}, stream.CloseSend()
	}
}

func bidirectional(path string) func(context.Context, *grpc.ClientConn) (grpc.ClientStream, error) {
	add[emptypb.Empty, emptypb.Empty](path, true, true)
	return func(ctx context.Context, c *grpc.ClientConn) (grpc.ClientStream, error) {
		return c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	}
}

// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

//nolint:revive // the methods are the same of each type
package proto

import (
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/protoadapt"
)

func text(m protoadapt.MessageV1) string { return prototext.Format(protoadapt.MessageV2Of(m)) }

// XXX_MessageName is the name in the details of an error.
func (*RecoverableError) XXX_MessageName() string {
	return "hashicorp.nomad.plugins.shared.structs.RecoverableError"
}

// Each message of a call, and of an error's details, has the methods by which gRPC knows a message.

func (m *PluginInfoResponse) Reset()         { *m = PluginInfoResponse{} }
func (m *PluginInfoResponse) String() string { return text(m) }
func (*PluginInfoResponse) ProtoMessage()    {}

func (m *ConfigSchemaResponse) Reset()         { *m = ConfigSchemaResponse{} }
func (m *ConfigSchemaResponse) String() string { return text(m) }
func (*ConfigSchemaResponse) ProtoMessage()    {}

func (m *SetConfigRequest) Reset()         { *m = SetConfigRequest{} }
func (m *SetConfigRequest) String() string { return text(m) }
func (*SetConfigRequest) ProtoMessage()    {}

func (m *TaskConfigSchemaResponse) Reset()         { *m = TaskConfigSchemaResponse{} }
func (m *TaskConfigSchemaResponse) String() string { return text(m) }
func (*TaskConfigSchemaResponse) ProtoMessage()    {}

func (m *CapabilitiesResponse) Reset()         { *m = CapabilitiesResponse{} }
func (m *CapabilitiesResponse) String() string { return text(m) }
func (*CapabilitiesResponse) ProtoMessage()    {}

func (m *FingerprintResponse) Reset()         { *m = FingerprintResponse{} }
func (m *FingerprintResponse) String() string { return text(m) }
func (*FingerprintResponse) ProtoMessage()    {}

func (m *StartTaskRequest) Reset()         { *m = StartTaskRequest{} }
func (m *StartTaskRequest) String() string { return text(m) }
func (*StartTaskRequest) ProtoMessage()    {}

func (m *StartTaskResponse) Reset()         { *m = StartTaskResponse{} }
func (m *StartTaskResponse) String() string { return text(m) }
func (*StartTaskResponse) ProtoMessage()    {}

func (m *RecoverTaskRequest) Reset()         { *m = RecoverTaskRequest{} }
func (m *RecoverTaskRequest) String() string { return text(m) }
func (*RecoverTaskRequest) ProtoMessage()    {}

func (m *WaitTaskRequest) Reset()         { *m = WaitTaskRequest{} }
func (m *WaitTaskRequest) String() string { return text(m) }
func (*WaitTaskRequest) ProtoMessage()    {}

func (m *WaitTaskResponse) Reset()         { *m = WaitTaskResponse{} }
func (m *WaitTaskResponse) String() string { return text(m) }
func (*WaitTaskResponse) ProtoMessage()    {}

func (m *StopTaskRequest) Reset()         { *m = StopTaskRequest{} }
func (m *StopTaskRequest) String() string { return text(m) }
func (*StopTaskRequest) ProtoMessage()    {}

func (m *DestroyTaskRequest) Reset()         { *m = DestroyTaskRequest{} }
func (m *DestroyTaskRequest) String() string { return text(m) }
func (*DestroyTaskRequest) ProtoMessage()    {}

func (m *InspectTaskRequest) Reset()         { *m = InspectTaskRequest{} }
func (m *InspectTaskRequest) String() string { return text(m) }
func (*InspectTaskRequest) ProtoMessage()    {}

func (m *InspectTaskResponse) Reset()         { *m = InspectTaskResponse{} }
func (m *InspectTaskResponse) String() string { return text(m) }
func (*InspectTaskResponse) ProtoMessage()    {}

func (m *TaskStatsRequest) Reset()         { *m = TaskStatsRequest{} }
func (m *TaskStatsRequest) String() string { return text(m) }
func (*TaskStatsRequest) ProtoMessage()    {}

func (m *TaskStatsResponse) Reset()         { *m = TaskStatsResponse{} }
func (m *TaskStatsResponse) String() string { return text(m) }
func (*TaskStatsResponse) ProtoMessage()    {}

func (m *DriverTaskEvent) Reset()         { *m = DriverTaskEvent{} }
func (m *DriverTaskEvent) String() string { return text(m) }
func (*DriverTaskEvent) ProtoMessage()    {}

func (m *RecoverableError) Reset()         { *m = RecoverableError{} }
func (m *RecoverableError) String() string { return text(m) }
func (*RecoverableError) ProtoMessage()    {}

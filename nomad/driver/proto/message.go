// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

//nolint:revive // the types and their fields are Nomad's, which documents them
package proto

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type (
	PluginType                                int32
	TaskState                                 int32
	DriverCapabilities_MountConfigs           int32
	FingerprintResponse_HealthState           int32
	NetworkIsolationSpec_NetworkIsolationMode int32
)

const (
	PluginType_DRIVER PluginType = 2

	TaskState_RUNNING TaskState = 1
	TaskState_EXITED  TaskState = 2

	DriverCapabilities_NO_MOUNTS DriverCapabilities_MountConfigs = 1

	FingerprintResponse_UNHEALTHY FingerprintResponse_HealthState = 1
	FingerprintResponse_HEALTHY   FingerprintResponse_HealthState = 2

	NetworkIsolationSpec_HOST  NetworkIsolationSpec_NetworkIsolationMode = 0
	NetworkIsolationSpec_GROUP NetworkIsolationSpec_NetworkIsolationMode = 1
)

type PluginInfoResponse struct {
	Type              PluginType `protobuf:"varint,1,opt,name=type,proto3,enum=PluginType"`
	PluginApiVersions []string   `protobuf:"bytes,2,rep,name=plugin_api_versions,proto3"`
	PluginVersion     string     `protobuf:"bytes,3,opt,name=plugin_version,proto3"`
	Name              string     `protobuf:"bytes,4,opt,name=name,proto3"`
}

type ConfigSchemaResponse struct {
	Spec *Spec `protobuf:"bytes,1,opt,name=spec,proto3"`
}

type SetConfigRequest struct {
	MsgpackConfig []byte `protobuf:"bytes,1,opt,name=msgpack_config,proto3"`
}

type TaskConfigSchemaResponse struct {
	Spec *Spec `protobuf:"bytes,1,opt,name=spec,proto3"`
}

type CapabilitiesResponse struct {
	Capabilities *DriverCapabilities `protobuf:"bytes,1,opt,name=capabilities,proto3"`
}

type DriverCapabilities struct {
	NetworkIsolationModes []NetworkIsolationSpec_NetworkIsolationMode `protobuf:"varint,4,rep,packed,name=network_isolation_modes,proto3,enum=NetworkIsolationSpec_NetworkIsolationMode"`
	MountConfigs          DriverCapabilities_MountConfigs             `protobuf:"varint,6,opt,name=mount_configs,proto3,enum=DriverCapabilities_MountConfigs"`
	DisableLogCollection  bool                                        `protobuf:"varint,8,opt,name=disable_log_collection,proto3"`
}

type FingerprintResponse struct {
	Attributes        map[string]*Attribute           `protobuf:"bytes,1,rep,name=attributes,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	Health            FingerprintResponse_HealthState `protobuf:"varint,2,opt,name=health,proto3,enum=FingerprintResponse_HealthState"`
	HealthDescription string                          `protobuf:"bytes,3,opt,name=health_description,proto3"`
}

type StartTaskRequest struct {
	Task *TaskConfig `protobuf:"bytes,1,opt,name=task,proto3"`
}

type StartTaskResponse struct {
	Handle          *TaskHandle      `protobuf:"bytes,3,opt,name=handle,proto3"`
	NetworkOverride *NetworkOverride `protobuf:"bytes,4,opt,name=network_override,proto3"`
}

type RecoverTaskRequest struct {
	TaskId string      `protobuf:"bytes,1,opt,name=task_id,proto3"`
	Handle *TaskHandle `protobuf:"bytes,2,opt,name=handle,proto3"`
}

type WaitTaskRequest struct {
	TaskId string `protobuf:"bytes,1,opt,name=task_id,proto3"`
}

type WaitTaskResponse struct {
	Result *ExitResult `protobuf:"bytes,1,opt,name=result,proto3"`
	Err    string      `protobuf:"bytes,2,opt,name=err,proto3"`
}

type StopTaskRequest struct {
	TaskId string `protobuf:"bytes,1,opt,name=task_id,proto3"`
}

type DestroyTaskRequest struct {
	TaskId string `protobuf:"bytes,1,opt,name=task_id,proto3"`
	Force  bool   `protobuf:"varint,2,opt,name=force,proto3"`
}

type InspectTaskRequest struct {
	TaskId string `protobuf:"bytes,1,opt,name=task_id,proto3"`
}

type InspectTaskResponse struct {
	Task            *TaskStatus       `protobuf:"bytes,1,opt,name=task,proto3"`
	Driver          *TaskDriverStatus `protobuf:"bytes,2,opt,name=driver,proto3"`
	NetworkOverride *NetworkOverride  `protobuf:"bytes,3,opt,name=network_override,proto3"`
}

type TaskStatsRequest struct {
	TaskId             string               `protobuf:"bytes,1,opt,name=task_id,proto3"`
	CollectionInterval *durationpb.Duration `protobuf:"bytes,2,opt,name=collection_interval,proto3"`
}

type TaskStatsResponse struct {
	Stats *TaskStats `protobuf:"bytes,1,opt,name=stats,proto3"`
}

// DriverTaskEvent is shown by `nomad alloc status`.
type DriverTaskEvent struct {
	TaskId      string                 `protobuf:"bytes,1,opt,name=task_id,proto3"`
	AllocId     string                 `protobuf:"bytes,2,opt,name=alloc_id,proto3"`
	TaskName    string                 `protobuf:"bytes,3,opt,name=task_name,proto3"`
	Timestamp   *timestamppb.Timestamp `protobuf:"bytes,4,opt,name=timestamp,proto3"`
	Message     string                 `protobuf:"bytes,5,opt,name=message,proto3"`
	Annotations map[string]string      `protobuf:"bytes,6,rep,name=annotations,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}

type TaskConfig struct {
	Id                   string                `protobuf:"bytes,1,opt,name=id,proto3"`
	Name                 string                `protobuf:"bytes,2,opt,name=name,proto3"`
	MsgpackDriverConfig  []byte                `protobuf:"bytes,3,opt,name=msgpack_driver_config,proto3"`
	Env                  map[string]string     `protobuf:"bytes,4,rep,name=env,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	Resources            *Resources            `protobuf:"bytes,6,opt,name=resources,proto3"`
	AllocDir             string                `protobuf:"bytes,10,opt,name=alloc_dir,proto3"`
	TaskGroupName        string                `protobuf:"bytes,13,opt,name=task_group_name,proto3"`
	AllocId              string                `protobuf:"bytes,15,opt,name=alloc_id,proto3"`
	NetworkIsolationSpec *NetworkIsolationSpec `protobuf:"bytes,16,opt,name=network_isolation_spec,proto3"`
	JobId                string                `protobuf:"bytes,18,opt,name=job_id,proto3"`
	Namespace            string                `protobuf:"bytes,19,opt,name=namespace,proto3"`
	XXX_unrecognized     []byte
}

type Resources struct {
	Ports            []*PortMapping `protobuf:"bytes,3,rep,name=ports,proto3"`
	XXX_unrecognized []byte
}

type PortMapping struct {
	Label            string `protobuf:"bytes,1,opt,name=label,proto3"`
	Value            int32  `protobuf:"varint,2,opt,name=value,proto3"`
	To               int32  `protobuf:"varint,3,opt,name=to,proto3"`
	HostIp           string `protobuf:"bytes,4,opt,name=host_ip,proto3"`
	XXX_unrecognized []byte
}

type NetworkIsolationSpec struct {
	Mode             NetworkIsolationSpec_NetworkIsolationMode `protobuf:"varint,1,opt,name=mode,proto3,enum=NetworkIsolationSpec_NetworkIsolationMode"`
	Path             string                                    `protobuf:"bytes,2,opt,name=path,proto3"`
	XXX_unrecognized []byte
}

type TaskHandle struct {
	Version     int32       `protobuf:"varint,1,opt,name=version,proto3"`
	Config      *TaskConfig `protobuf:"bytes,2,opt,name=config,proto3"`
	State       TaskState   `protobuf:"varint,3,opt,name=state,proto3,enum=TaskState"`
	DriverState []byte      `protobuf:"bytes,4,opt,name=driver_state,proto3"`
}

type NetworkOverride struct {
	Addr          string `protobuf:"bytes,2,opt,name=addr,proto3"`
	AutoAdvertise bool   `protobuf:"varint,3,opt,name=auto_advertise,proto3"`
}

type ExitResult struct {
	ExitCode int32 `protobuf:"varint,1,opt,name=exit_code,proto3"`
}

type TaskStatus struct {
	Id          string                 `protobuf:"bytes,1,opt,name=id,proto3"`
	Name        string                 `protobuf:"bytes,2,opt,name=name,proto3"`
	State       TaskState              `protobuf:"varint,3,opt,name=state,proto3,enum=TaskState"`
	StartedAt   *timestamppb.Timestamp `protobuf:"bytes,4,opt,name=started_at,proto3"`
	CompletedAt *timestamppb.Timestamp `protobuf:"bytes,5,opt,name=completed_at,proto3"`
	Result      *ExitResult            `protobuf:"bytes,6,opt,name=result,proto3"`
}

type TaskDriverStatus struct {
	Attributes map[string]string `protobuf:"bytes,1,rep,name=attributes,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}

type TaskStats struct {
	Id               string                 `protobuf:"bytes,1,opt,name=id,proto3"`
	Timestamp        *timestamppb.Timestamp `protobuf:"bytes,2,opt,name=timestamp,proto3"`
	AggResourceUsage *TaskResourceUsage     `protobuf:"bytes,3,opt,name=agg_resource_usage,proto3"`
}

type TaskResourceUsage struct {
	Cpu    *CPUUsage    `protobuf:"bytes,1,opt,name=cpu,proto3"`
	Memory *MemoryUsage `protobuf:"bytes,2,opt,name=memory,proto3"`
}

type CPUUsage struct{}

type MemoryUsage struct{}

// Spec is a part of a schema, by which Nomad reads a config block: one of its fields.
type Spec struct {
	Object     *Object   `protobuf:"bytes,1,opt,name=object,proto3"`
	Attr       *Attr     `protobuf:"bytes,3,opt,name=attr,proto3"`
	BlockValue *Block    `protobuf:"bytes,4,opt,name=block_value,proto3"`
	BlockMap   *BlockMap `protobuf:"bytes,8,opt,name=block_map,proto3"`
}

type Object struct {
	Attributes map[string]*Spec `protobuf:"bytes,1,rep,name=attributes,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
}

type Attr struct {
	Name string `protobuf:"bytes,1,opt,name=name,proto3"`
	Type string `protobuf:"bytes,2,opt,name=type,proto3"` // a type of HCL, such as "list(string)"
}

// Block is a block that occurs at most once.
type Block struct {
	Name   string `protobuf:"bytes,1,opt,name=name,proto3"`
	Nested *Spec  `protobuf:"bytes,3,opt,name=nested,proto3"`
}

// BlockMap are the blocks of a name, each with other labels.
type BlockMap struct {
	Name   string   `protobuf:"bytes,1,opt,name=name,proto3"`
	Labels []string `protobuf:"bytes,2,rep,name=labels,proto3"` // what each label means
	Nested *Spec    `protobuf:"bytes,3,opt,name=nested,proto3"`
}

// Attribute is the value of a node attribute. Nomad has further kinds of values.
type Attribute struct {
	StringVal *string `protobuf:"bytes,3,opt,name=string_val"`
}

// RecoverableError is the detail of an error that says whether Nomad restarts the task.
type RecoverableError struct {
	Recoverable bool `protobuf:"varint,1,opt,name=recoverable,proto3"`
}

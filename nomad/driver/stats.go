// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// taskStats streams the resource usage of a task until it ends. It is zero, because
// the task has no process. The protocol has no field for the traffic of an
// interface; InspectTask returns it.
func (d *driver) taskStats(r *proto.TaskStatsRequest, stream grpc.ServerStreamingServer[proto.TaskStatsResponse]) error {
	t, err := d.tasks.find(r.TaskId)
	if err != nil {
		return err
	}
	interval := r.CollectionInterval.AsDuration()
	if interval <= 0 {
		return status.Errorf(codes.InvalidArgument, "collection interval %s: want more than 0", interval)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := stream.Send(&proto.TaskStatsResponse{Stats: &proto.TaskStats{
			Id: r.TaskId, Timestamp: timestamppb.Now(),
			AggResourceUsage: &proto.TaskResourceUsage{Cpu: &proto.CPUUsage{}, Memory: &proto.MemoryUsage{}},
		}})
		if err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-t.ended:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

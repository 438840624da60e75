package main

import (
	"fmt"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/tqid"
	"go.temporal.io/server/service/matching"
)

// queueName says which physical task queue a request is about, in the terms of Temporal's matching service, which turns
// them into the name that the rows have.
type queueName struct {
	Tables     string // classic or fair
	Namespace  string
	Base       string
	Type       int32
	Partition  int
	VersionSet string `json:"version_set"`
	Deployment string
	BuildID    string `json:"build_id"`
	Sticky     string
	// A worker's queue for commands of the server.
	WorkerCommands bool `json:"worker_commands"`
}

type physicalQueue struct {
	name       string // In the rows.
	namespace  string
	taskType   enumspb.TaskQueueType
	kind       enumspb.TaskQueueKind
	timeToLive time.Duration
}

func (q queueName) resolve() (physicalQueue, error) {
	family, err := tqid.NewTaskQueueFamily(q.Namespace, q.Base)
	if err != nil {
		return physicalQueue{}, err
	}
	taskQueue := family.TaskQueue(enumspb.TaskQueueType(q.Type))
	var partition tqid.Partition = taskQueue.NormalPartition(q.Partition)
	if q.Sticky != "" {
		partition = taskQueue.StickyPartition(q.Sticky)
	}
	if q.WorkerCommands {
		partition = taskQueue.WorkerCommandsPartition()
	}
	key := matching.UnversionedQueueKey(partition)
	switch {
	case q.VersionSet != "":
		key = matching.VersionSetQueueKey(partition, q.VersionSet)
	case q.Deployment != "":
		key = matching.DeploymentQueueKey(partition, &deploymentpb.Deployment{SeriesName: q.Deployment, BuildId: q.BuildID})
	case q.BuildID != "":
		key = matching.BuildIdQueueKey(partition, q.BuildID)
	}
	if q.Tables != "classic" && q.Tables != "fair" {
		return physicalQueue{}, fmt.Errorf("tables %q are neither classic nor fair", q.Tables)
	}
	return physicalQueue{name: key.PersistenceName(), namespace: key.NamespaceId(), taskType: key.TaskType(),
		kind: partition.Kind(), timeToLive: partition.PersistenceTTL()}, nil
}

package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"go.temporal.io/api/serviceerror"
	persistencespb "go.temporal.io/server/api/persistence/v1"
	"go.temporal.io/server/common/persistence"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const callTimeout = time.Minute

// request is one line of input. Which fields count depends on op:
//
//	create    makes the queue's row: range_id, info
//	take      becomes the owner: reads the row and writes it back under the next range id, as Temporal does
//	save      writes info under range_id
//	append    writes tasks under range_id
//	read      everything there is of the queue, of the first `subqueues` subqueues
//	complete  deletes the tasks of a subqueue below a level; of fair queues under range_id
//	list      all queues of the tables
type request struct {
	Op        string
	Queue     queueName
	RangeID   int64 `json:"range_id"`
	Info      json.RawMessage
	Unknown   string // Hex of fields that are added to info and that Temporal does not know.
	Tasks     []task
	Subqueues int
	Subqueue  int
	BelowPass int64 `json:"below_pass"`
	BelowID   int64 `json:"below_id"`
}

// task is a stored task; of a request info and unknown count, of a reply data is the TaskInfo's bytes.
type task struct {
	Subqueue int             `json:"subqueue"`
	Pass     int64           `json:"pass"`
	ID       int64           `json:"id"`
	Info     json.RawMessage `json:"info,omitempty"`
	Unknown  string          `json:"unknown,omitempty"`
	Data     string          `json:"data,omitempty"`
}

type reply struct {
	Error   string          `json:"error,omitempty"` // A short word where there is one; else the text.
	Name    string          `json:"name,omitempty"`  // The persistence name.
	RangeID int64           `json:"range_id,omitempty"`
	Info    json.RawMessage `json:"info,omitempty"`
	Unknown []string        `json:"unknown,omitempty"` // Paths of fields that Temporal does not know.
	Tasks   []task          `json:"tasks,omitempty"`
	Deleted int             `json:"deleted"`
	Queues  []reply         `json:"queues,omitempty"`
}

type talker struct {
	managers map[string]persistence.TaskManager
}

func (t talker) serve(in io.Reader, out io.Writer) error {
	encoder := json.NewEncoder(out)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer, err := t.answer(line)
		if err != nil {
			answer = reply{Error: describe(err)}
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
}

func describe(err error) string {
	var conditionFailed *persistence.ConditionFailedError
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &conditionFailed):
		return "condition failed"
	case errors.As(err, &notFound):
		return "not found"
	default:
		return err.Error()
	}
}

func (t talker) answer(line []byte) (reply, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if r.Op == "list" {
		return t.list(ctx, r)
	}
	queue, err := r.Queue.resolve()
	if err != nil {
		return reply{}, err
	}
	s := session{ctx: ctx, store: t.managers[r.Queue.Tables], fair: r.Queue.Tables == "fair", queue: queue, request: r}
	answers := map[string]func() (reply, error){"create": s.create, "take": s.take, "save": s.save, "append": s.append,
		"read": s.read, "complete": s.complete}
	do, ok := answers[r.Op]
	if !ok {
		return reply{}, fmt.Errorf("no such op: %q", r.Op)
	}
	answer, err := do()
	answer.Name = queue.name
	return answer, err
}

func (t talker) list(ctx context.Context, r request) (reply, error) {
	var answer reply
	var token []byte
	for {
		page, err := t.managers[r.Queue.Tables].ListTaskQueue(ctx, &persistence.ListTaskQueueRequest{PageSize: 100, PageToken: token})
		if err != nil {
			return reply{}, err
		}
		for _, item := range page.Items {
			answer.Queues = append(answer.Queues, reply{Name: item.Data.Name, RangeID: item.RangeID, Info: toJSON(item.Data),
				Unknown: unknownFields(item.Data)})
		}
		if token = page.NextPageToken; len(token) == 0 {
			return answer, nil
		}
	}
}

// session is one request about one queue.
type session struct {
	ctx     context.Context
	store   persistence.TaskManager
	fair    bool
	queue   physicalQueue
	request request
}

// info is what the request says, with what Temporal fills in by itself.
func (s session) info() (*persistencespb.TaskQueueInfo, error) {
	info := &persistencespb.TaskQueueInfo{}
	if len(s.request.Info) > 0 {
		if err := protojson.Unmarshal(s.request.Info, info); err != nil {
			return nil, err
		}
	}
	if err := addUnknown(info, s.request.Unknown); err != nil {
		return nil, err
	}
	s.stamp(info)
	return info, nil
}

func (s session) stamp(info *persistencespb.TaskQueueInfo) {
	info.NamespaceId, info.Name = s.queue.namespace, s.queue.name
	info.TaskType, info.Kind = s.queue.taskType, s.queue.kind
	now := time.Now().UTC()
	info.LastUpdateTime = timestamppb.New(now)
	info.ExpiryTime = nil
	if s.queue.timeToLive > 0 {
		info.ExpiryTime = timestamppb.New(now.Add(s.queue.timeToLive))
	}
}

func (s session) create() (reply, error) {
	info, err := s.info()
	if err != nil {
		return reply{}, err
	}
	_, err = s.store.CreateTaskQueue(s.ctx, &persistence.CreateTaskQueueRequest{RangeID: s.request.RangeID, TaskQueueInfo: info})
	return reply{RangeID: s.request.RangeID, Info: toJSON(info)}, err
}

func (s session) get() (*persistence.GetTaskQueueResponse, error) {
	return s.store.GetTaskQueue(s.ctx, &persistence.GetTaskQueueRequest{NamespaceID: s.queue.namespace, TaskQueue: s.queue.name,
		TaskType: s.queue.taskType})
}

func (s session) take() (reply, error) {
	found, err := s.get()
	if err != nil {
		return reply{}, err
	}
	unknown := unknownFields(found.TaskQueueInfo)
	s.stamp(found.TaskQueueInfo)
	_, err = s.store.UpdateTaskQueue(s.ctx, &persistence.UpdateTaskQueueRequest{RangeID: found.RangeID + 1,
		TaskQueueInfo: found.TaskQueueInfo, PrevRangeID: found.RangeID})
	return reply{RangeID: found.RangeID + 1, Info: toJSON(found.TaskQueueInfo), Unknown: unknown}, err
}

func (s session) save() (reply, error) {
	info, err := s.info()
	if err != nil {
		return reply{}, err
	}
	_, err = s.store.UpdateTaskQueue(s.ctx, &persistence.UpdateTaskQueueRequest{RangeID: s.request.RangeID, TaskQueueInfo: info,
		PrevRangeID: s.request.RangeID})
	return reply{RangeID: s.request.RangeID, Info: toJSON(info)}, err
}

func (s session) append() (reply, error) {
	info, err := s.info()
	if err != nil {
		return reply{}, err
	}
	creates := &persistence.CreateTasksRequest{TaskQueueInfo: &persistence.PersistedTaskQueueInfo{Data: info, RangeID: s.request.RangeID}}
	var answer reply
	for _, t := range s.request.Tasks {
		data := &persistencespb.TaskInfo{}
		if err := protojson.Unmarshal(t.Info, data); err != nil {
			return reply{}, err
		}
		if err := addUnknown(data, t.Unknown); err != nil {
			return reply{}, err
		}
		creates.Tasks = append(creates.Tasks, &persistencespb.AllocatedTaskInfo{Data: data, TaskPass: t.Pass, TaskId: t.ID})
		creates.Subqueues = append(creates.Subqueues, t.Subqueue)
		answer.Tasks = append(answer.Tasks, task{Subqueue: t.Subqueue, Pass: t.Pass, ID: t.ID, Data: toHex(data)})
	}
	_, err = s.store.CreateTasks(s.ctx, creates)
	return answer, err
}

func (s session) read() (reply, error) {
	found, err := s.get()
	if err != nil {
		return reply{}, err
	}
	answer := reply{RangeID: found.RangeID, Info: toJSON(found.TaskQueueInfo), Unknown: unknownFields(found.TaskQueueInfo)}
	for subqueue := 0; subqueue < s.request.Subqueues; subqueue++ {
		ask := &persistence.GetTasksRequest{NamespaceID: s.queue.namespace, TaskQueue: s.queue.name, TaskType: s.queue.taskType,
			ExclusiveMaxTaskID: math.MaxInt64, Subqueue: subqueue, PageSize: 50}
		if s.fair {
			ask.InclusiveMinPass, ask.UseLimit = 1, true
		}
		for {
			page, err := s.store.GetTasks(s.ctx, ask)
			if err != nil {
				return reply{}, err
			}
			for _, row := range page.Tasks {
				answer.Unknown = append(answer.Unknown, unknownFields(row)...)
				answer.Tasks = append(answer.Tasks, task{Subqueue: subqueue, Pass: row.TaskPass, ID: row.TaskId, Data: toHex(row.Data),
					Info: toJSON(row.Data)})
			}
			if ask.NextPageToken = page.NextPageToken; len(ask.NextPageToken) == 0 {
				break
			}
		}
	}
	return answer, nil
}

func (s session) complete() (reply, error) {
	ask := &persistence.CompleteTasksLessThanRequest{NamespaceID: s.queue.namespace, TaskQueueName: s.queue.name,
		TaskType: s.queue.taskType, ExclusiveMaxTaskID: s.request.BelowID, Subqueue: s.request.Subqueue, Limit: 100_000}
	if s.fair {
		ask.ExclusiveMaxPass, ask.ConditionRangeID = s.request.BelowPass, s.request.RangeID
	}
	deleted, err := s.store.CompleteTasksLessThan(s.ctx, ask)
	return reply{Deleted: deleted}, err
}

func toJSON(m proto.Message) json.RawMessage { return json.RawMessage(protojson.Format(m)) }

func toHex(m proto.Message) string {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "error: " + err.Error()
	}
	return hex.EncodeToString(bytes)
}

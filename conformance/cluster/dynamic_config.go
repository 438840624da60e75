package cluster

import "fmt"

// DynamicConfig is a file for a cluster that nothing slows down on purpose: every guard on requests and on calls of the
// database is raised, as a comparison of two matching services needs. Each task queue has so many partitions.
func DynamicConfig(partitions int) string {
	text := ""
	set := func(key string, value any) { text += fmt.Sprintf("%s:\n  - value: %v\n", key, value) }
	set("matching.numTaskqueueReadPartitions", partitions)
	set("matching.numTaskqueueWritePartitions", partitions)
	for _, service := range []string{"frontend", "history", "matching", "worker"} {
		set(service+".persistenceMaxQPS", 1_000_000)
		set(service+".persistenceNamespaceMaxQPS", 1_000_000)
	}
	for _, key := range []string{"frontend.rps", "frontend.namespaceRPS", "frontend.namespaceCount", "history.rps",
		"history.namespaceRPS", "matching.rps", "matching.namespaceRPS"} {
		set(key, 1_000_000)
	}
	return text
}

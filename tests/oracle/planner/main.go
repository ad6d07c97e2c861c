// The oracle answers with what Cluster API's own functions return.
//
// The same source is built once for each release
// whose planner differs, by a module file of that release: see build.sh.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/util/version"
)

type question struct {
	// Op is "plan", "bench", "compare", "strict" or "lenient".
	Op string `json:"op"`

	// Rounds is how many times a bench plans.
	Rounds int `json:"rounds,omitempty"`

	// Of a plan: where it comes from ("one-minor", "versions", "extension"), and what for.
	Source            string   `json:"source,omitempty"`
	Versions          []string `json:"versions,omitempty"`
	GivenControlPlane []string `json:"given_control_plane,omitempty"`
	GivenWorkers      []string `json:"given_workers,omitempty"`
	Target            string   `json:"target,omitempty"`
	ControlPlane      string   `json:"control_plane,omitempty"`
	Workers           []string `json:"workers,omitempty"`

	// Of a comparison, or of a parse (A alone).
	A string `json:"a,omitempty"`
	B string `json:"b,omitempty"`
}

type answer struct {
	ControlPlanePlan []string `json:"control_plane_plan"`
	WorkerPlan       []string `json:"worker_plan"`
	MinWorker        string   `json:"min_worker"`
	// Error is the stable word for the reason, Text what the function said.
	Error string `json:"error"`
	Text  string `json:"text"`

	// Compare holds the results of the default comparison, with build tags, and without pre-releases.
	Compare [3]int `json:"compare"`
	// Canonical is the text of a parsed version.
	Canonical string `json:"canonical"`

	// Nanoseconds is what one plan of a bench takes, on average.
	Nanoseconds float64 `json:"nanoseconds,omitempty"`
}

func main() {
	serve(respond, func(q *question) bool { return q.Op == "bench" })
}

func respond(q *question) (*answer, error) {
	switch q.Op {
	case "plan":
		return plan(q)
	case "bench":
		return bench(q)
	case "compare":
		return compare(q)
	case "strict":
		// Cluster API 1.14's rule for a Cluster: the v is cut off, the rest is parsed strictly.
		rest, found := strings.CutPrefix(q.A, "v")
		if !found {
			return &answer{Error: "unparsable"}, nil
		}
		return parsed(semver.Parse(rest)), nil
	case "lenient":
		return parsed(semver.ParseTolerant(q.A)), nil
	}
	return nil, fmt.Errorf("unknown op %q", q.Op)
}

func parsed(v semver.Version, err error) *answer {
	if err != nil {
		return &answer{Error: "unparsable", Text: err.Error()}
	}
	return &answer{Canonical: "v" + v.String()}
}

func compare(q *question) (*answer, error) {
	a, errA := semver.ParseTolerant(q.A)
	b, errB := semver.ParseTolerant(q.B)
	if err := errors.Join(errA, errB); err != nil {
		return &answer{Error: "unparsable", Text: err.Error()}, nil
	}
	return &answer{Compare: [3]int{
		version.Compare(a, b),
		version.Compare(a, b, version.WithBuildTags()),
		version.Compare(a, b, version.WithoutPreReleases()),
	}}, nil
}

// setUp makes the state that a question describes, and the source of its plan.
func setUp(q *question) (*scope.Scope, desiredstate.GetUpgradePlanFunc, error) {
	var source desiredstate.GetUpgradePlanFunc
	switch q.Source {
	case "one-minor":
		source = desiredstate.GetUpgradePlanOneMinor
	case "versions":
		source = desiredstate.GetUpgradePlanFromClusterClassVersions(q.Versions)
	case "extension":
		source = func(context.Context, string, string, string) ([]string, []string, error) {
			return q.GivenControlPlane, q.GivenWorkers, nil
		}
	default:
		return nil, nil, fmt.Errorf("unknown source %q", q.Source)
	}
	cluster := &clusterv1.Cluster{}
	cluster.Spec.Topology.Version = q.Target
	s := scope.New(cluster)
	s.Blueprint = &scope.ClusterBlueprint{Topology: cluster.Spec.Topology}
	s.Current.ControlPlane = &scope.ControlPlaneState{Object: &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"version": q.ControlPlane}},
	}}
	s.Current.MachineDeployments = scope.MachineDeploymentsStateMap{}
	for i, v := range q.Workers {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Template.Spec.Version = v
		s.Current.MachineDeployments[fmt.Sprint(i)] = &scope.MachineDeploymentState{Object: md}
	}
	return s, source, nil
}

func plan(q *question) (*answer, error) {
	s, source, err := setUp(q)
	if err != nil {
		return nil, err
	}
	err = desiredstate.ComputeUpgradePlan(context.Background(), s, source)
	a := &answer{MinWorker: s.UpgradeTracker.MinWorkersVersion}
	if err != nil {
		a.Text = err.Error()
		a.Error = word(a.Text)
		return a, nil
	}
	a.ControlPlanePlan = s.UpgradeTracker.ControlPlane.UpgradePlan
	a.WorkerPlan = s.UpgradeTracker.MachineDeployments.UpgradePlan
	return a, nil
}

// bench plans many times from one state; making the state is not counted.
func bench(q *question) (*answer, error) {
	s, source, err := setUp(q)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	begin := time.Now()
	for range q.Rounds {
		// An error is a result like another one; which it is, is in the answer below.
		_ = desiredstate.ComputeUpgradePlan(ctx, s, source)
	}
	each := float64(time.Since(begin).Nanoseconds()) / float64(q.Rounds)
	a, err := plan(q)
	if err != nil {
		return nil, err
	}
	a.Nanoseconds = each
	return a, nil
}

// word is the stable word for what the functions say; a text that none fits is given back, and differs from every word.
func word(text string) string {
	for _, known := range []struct{ part, word string }{
		{"failed to parse", "unparsable"},
		{"cannot compute an upgrade plan", "more-than-one-minor"},
		{"expecting a version with minor", "cp-skips-minor"},
		{"must end with version", "plan-does-not-end-at-target"},
		{"already at the desired version", "control-plane-already-there"},
		{"doesn't match any versions in the control plane", "worker-not-in-control-plane-plan"},
		{"failer to determine version", "unknown-build-order"},
		{"must be before", "build-order"},
		{"must be greater than", "not-ascending"},
		{"workers cannot go from minor", "worker-skew"},
	} {
		if strings.Contains(text, known.part) {
			return known.word
		}
	}
	return text
}

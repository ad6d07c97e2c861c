// The oracle answers with what Cluster API's own admission webhooks refuse.
//
// The objects are the very manifests that a request
// would carry; what the webhooks read besides (the control plane, its CRD, a MachineDeployment with its Machine) is put
// beside them at the Cluster's old version, and every class counts as reconciled, so that nothing is waited for.
package main

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/index"
)

// question is a change of a Cluster or of a class: old alone is a DELETE, new alone a CREATE.
type question struct {
	Cluster  *objects[clusterv1.Cluster]      `json:"cluster,omitempty"`
	Class    *objects[clusterv1.ClusterClass] `json:"class,omitempty"`
	Classes  []clusterv1.ClusterClass         `json:"classes,omitempty"`
	Clusters []clusterv1.Cluster              `json:"clusters,omitempty"`
	// Workers says whether the Cluster has a MachineDeployment.
	Workers bool `json:"workers,omitempty"`
}

type objects[T any] struct {
	Old *T `json:"old,omitempty"`
	New *T `json:"new,omitempty"`
}

type answer struct {
	Refusals []refusal `json:"refusals"`
	Warnings int       `json:"warnings"`
}

// refusal is one reason why the change is refused.
type refusal struct {
	// Word is the stable word of the check; the text itself where no word is known, which equals no word.
	Word string `json:"word"`
	// At is the index of a list's entry.
	At int `json:"at"`
}

func main() {
	ctrl.SetLogger(logr.Discard())
	if err := feature.MutableGates.Set("ClusterTopology=true,RuntimeSDK=true"); err != nil {
		fail(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		fail(err)
	}
	ask := func(q *question) (*answer, error) { return respond(scheme, q) }
	serve(ask, func(*question) bool { return false })
}

func respond(scheme *runtime.Scheme, q *question) (*answer, error) {
	ctx := context.Background()
	known := []client.Object{}
	for i := range q.Classes {
		known = append(known, reconciled(&q.Classes[i]))
	}
	for i := range q.Clusters {
		known = append(known, &q.Clusters[i])
	}
	if q.Cluster != nil && q.Cluster.Old != nil {
		known = append(known, running(q.Cluster.Old, q.Workers)...)
	}
	reader := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(known...).
		WithIndex(&clusterv1.Cluster{}, index.ClusterClassRefPath, index.ClusterByClusterClassRef).
		// The default would set up the types of all of Kubernetes, for every question anew.
		WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		Build()
	switch {
	case q.Cluster != nil:
		webhook := &admission.Cluster{Client: reader}
		o, n := q.Cluster.Old, q.Cluster.New
		if n == nil {
			warnings, err := webhook.ValidateDelete(ctx, o)
			return judged(warnings, err)
		}
		// The defaulting webhook comes first, as in the API server.
		if err := webhook.Default(ctx, n); err != nil {
			return nil, err
		}
		if o == nil {
			warnings, err := webhook.ValidateCreate(ctx, n)
			return judged(warnings, err)
		}
		warnings, err := webhook.ValidateUpdate(ctx, o, n)
		return judged(warnings, err)
	case q.Class != nil:
		webhook := &admission.ClusterClass{Client: reader}
		o, n := q.Class.Old, q.Class.New
		if n == nil {
			warnings, err := webhook.ValidateDelete(ctx, o)
			return judged(warnings, err)
		}
		if o == nil {
			warnings, err := webhook.ValidateCreate(ctx, n)
			return judged(warnings, err)
		}
		warnings, err := webhook.ValidateUpdate(ctx, o, n)
		return judged(warnings, err)
	}
	return nil, errors.New("a question without a change")
}

// reconciled marks a class as its controller would, so that the webhook does not wait for that.
func reconciled(class *clusterv1.ClusterClass) *clusterv1.ClusterClass {
	class.Generation = 1
	class.Status.ObservedGeneration = 1
	conditions.Set(class, metav1.Condition{
		Type:   clusterv1.ClusterClassVariablesReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ClusterClassVariablesReadyReason,
	})
	return class
}

// running is what a Cluster that has arrived at its version consists of.
func running(cluster *clusterv1.Cluster, workers bool) []client.Object {
	ref := cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		return nil
	}
	v := cluster.Spec.Topology.Version
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name:   strings.ToLower(ref.Kind) + "s." + ref.APIGroup,
		Labels: map[string]string{clusterv1.GroupVersion.Group + "/v1beta2": "v1beta2"},
	}}
	controlPlane := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"version": v},
		"status": map[string]any{"version": v},
	}}
	controlPlane.SetAPIVersion(ref.APIGroup + "/v1beta2")
	controlPlane.SetKind(ref.Kind)
	controlPlane.SetNamespace(cluster.Namespace)
	controlPlane.SetName(ref.Name)
	if !workers {
		return []client.Object{crd, controlPlane}
	}
	labels := map[string]string{
		clusterv1.ClusterNameLabel:          cluster.Name,
		clusterv1.ClusterTopologyOwnedLabel: "",
	}
	meta := metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-workers", Labels: labels}
	deployment := &clusterv1.MachineDeployment{ObjectMeta: meta}
	deployment.Spec.Selector.MatchLabels = labels
	deployment.Spec.Template.Spec.Version = v
	machine := &clusterv1.Machine{ObjectMeta: meta}
	machine.Spec.Version = v
	return []client.Object{crd, controlPlane, deployment, machine}
}

func judged(warnings []string, err error) (*answer, error) {
	a := &answer{Refusals: []refusal{}, Warnings: len(warnings)}
	if err == nil {
		return a, nil
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return nil, err
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		a.Refusals = append(a.Refusals, refusal{Word: word("", status.Status().Message)})
		return a, nil
	}
	for _, cause := range details.Causes {
		a.Refusals = append(a.Refusals, refusal{Word: word(cause.Field, cause.Message), At: at(cause.Field)})
	}
	return a, nil
}

var entry = regexp.MustCompile(`\[(\d+)\]$`)

func at(field string) int {
	found := entry.FindStringSubmatch(field)
	if found == nil {
		return 0
	}
	i, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return i
}

// word is the stable word for a refusal; one that none fits is given back, and differs from every word.
func word(field, text string) string {
	const version, list = "spec.topology.version", "spec.kubernetesVersion"
	for _, known := range []struct{ field, part, word string }{
		{version, "old version must be a valid", "old-version-syntax"},
		{version, "must start with v", "C3"},
		{version, "version must be a valid semantic version", "C3"},
		{version, "must match one of the versions", "C5"},
		{version, "version cannot be decreased", "C8"},
		{version, "version cannot be increased", "C9"},
		{version, "version cannot be changed", "C10"},
		{list + "[", "must be a valid semantic version", "K1"},
		{list + "[", "must be greater than", "K2"},
		{list + "[", "expecting a version with minor", "K3"},
		{list + "s", "but not set in ClusterClass", "K4"},
		{"", "ClusterClass cannot be deleted because it is used by", "K5"},
	} {
		if strings.HasPrefix(field, known.field) && strings.Contains(text, known.part) {
			return known.word
		}
	}
	return field + ": " + text
}

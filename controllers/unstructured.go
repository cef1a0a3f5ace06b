package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// untyped turns an object of the scheme into the fields it sets, without status and what the server writes.
func untyped(o client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(o, scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", o, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: prune(content)}
	u.SetGroupVersionKind(gvk)
	delete(u.Object, "status")
	return u, nil
}

// prune removes what typed objects write for "not set": nulls, empty maps and creationTimestamp.
func prune(m map[string]any) map[string]any {
	for key, value := range m {
		switch v := value.(type) {
		case nil:
			delete(m, key)
		case map[string]any:
			if prune(v); len(v) == 0 && key != "emptyDir" {
				delete(m, key)
			}
		case []any:
			for _, item := range v {
				if inner, ok := item.(map[string]any); ok {
					prune(inner)
				}
			}
		}
	}
	return m
}

// covers tells whether have has everything that want sets. What want leaves out is the server's or somebody else's.
func covers(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range w {
			if !covers(h[key], value) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return false
		}
		for i := range w {
			if !covers(h[i], w[i]) {
				return false
			}
		}
		return true
	}
	return fmt.Sprint(have) == fmt.Sprint(want) // numbers come as int64 or float64
}

// overlay sets in have everything that want sets. Lists are replaced.
func overlay(have, want map[string]any) {
	for key, value := range want {
		inner, ok := value.(map[string]any)
		old, alsoOk := have[key].(map[string]any)
		if ok && alsoOk {
			overlay(old, inner)
			continue
		}
		have[key] = value
	}
}

// fingerprint identifies a rendering.
func fingerprint(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("rendering is no JSON: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

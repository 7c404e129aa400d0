// Package server answers requests.
package server

import (
	"context"
	"fmt"

	store "example.com/miton/internal/store"
)

const DefaultPort = 8377

type Handler interface {
	Handle(ctx context.Context, name string) error
}

// Server keeps the handlers by name.
type Server struct {
	port     int
	handlers map[string]Handler
	db       *store.DB
}

// New makes a server.
func New(port int) *Server {
	return &Server{port: port, handlers: map[string]Handler{}, db: store.Open()}
}

// Handle finds the handler called name.
func (s *Server) Handle(ctx context.Context, name string) error {
	handler, ok := s.handlers[name]
	if !ok {
		return fmt.Errorf("no handler %q", name)
	}
	return handler.Handle(ctx, name)
}

type Stack[T any] struct{ items []T }

func (s *Stack[T]) Push(item T) {
	s.items = append(s.items, item)
}

func Map[T, U any](items []T, f func(T) U) []U {
	result := make([]U, 0, len(items))
	for _, item := range items {
		result = append(result, f(item))
	}
	return result
}

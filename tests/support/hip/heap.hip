// malloc, free, new and delete in kernels; the memory stays from one kernel to the next.
#include "check.h"

struct Node {
  int value;
  Node* next;
  __device__ Node(int v, Node* n) : value(v), next(n) {}
};

__global__ void grow(Node** heads, int depth) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  Node* head = nullptr;
  for (int k = 0; k < depth + i % 3; k++) head = new Node(i * 100 + k, head);
  heads[i] = head;
}
__global__ void sum(Node** heads, int* sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* count = (int*)malloc(sizeof(int));
  *count = 0;
  for (Node* node = heads[i]; node;) {
    *count += node->value;
    Node* next = node->next;
    delete node;
    node = next;
  }
  sums[i] = *count;
  free(count);
}

int main() {
  constexpr int N = 300, DEPTH = 4;
  DeviceArray<Node*> heads(N);
  DeviceArray<int> sums(N);
  grow<<<3, 100>>>(heads.data, DEPTH);
  sum<<<3, 100>>>(heads.data, sums.data);
  OK(hipDeviceSynchronize());
  int i = 0;
  for (int found : sums.host()) {
    int n = DEPTH + i % 3;
    EXPECT(found == n * i * 100 + n * (n - 1) / 2);
    i++;
  }
  return 0;
}

"""Objects with special methods, properties, inheritance and a context manager.

params: n=30,60,90 d=4,8,12 t=3,6,9
command: {n} {d} {t}
main: t
main->Cloud.__init__: n * d
main->Cloud.step: n * t
main->Cloud.step->Body.move: n * d * t
main->Cloud.__len__: t
main->Cloud.mass: n * t
main->Heavy.__init__: n * d
main->Heavy.spread: n * n
main->Watch.__enter__: t
main->Watch.__exit__: t
"""

import sys


class Body:
    def __init__(self, d):
        self.x = [0.0] * d

    def move(self):
        for i in range(len(self.x)):
            self.x[i] += 1.0


class Cloud:
    def __init__(self, n, d):
        self.bodies = []
        for i in range(n):
            body = Body.__new__(Body)
            body.x = [float(i)] * d
            self.bodies.append(body)

    def __len__(self):
        return len(self.bodies)

    @property
    def mass(self):
        mass = 0
        for _ in self.bodies:
            mass += 1
        return mass

    def step(self):
        for body in self.bodies:
            body.move()


class Heavy(Cloud):
    def __init__(self, n, d):
        self.bodies = [Body.__new__(Body) for _ in range(n)]
        for body in self.bodies:
            body.x = [0.0] * d

    def spread(self):
        most = 0.0
        for one in self.bodies:
            for other in self.bodies:
                most = max(most, one.x[0] - other.x[0])
        return most


class Watch:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def main():
    n, d, t = map(int, sys.argv[1:])
    cloud = Cloud(n, d)
    for _ in range(t):
        with Watch():
            cloud.step()
            assert len(cloud) == cloud.mass
    Heavy(n, d).spread()


main()

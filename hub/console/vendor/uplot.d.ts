export default class uPlot {
  constructor(options: object, data: (number | null)[][], into: HTMLElement);
  destroy(): void;
  setData(data: (number | null)[][]): void;
  setSize(size: { width: number; height: number }): void;
}
